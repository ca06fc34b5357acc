package bucket

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/larder-cli/larder/sources/fetch"
)

// payloadHeader is the header with the SHA-256 of the body, which is part of a signature.
const payloadHeader = "X-Amz-Content-Sha256"

// maxRefusal is how much of the body of a refusal is read, in bytes.
const maxRefusal = 64 << 10

// An authorizer signs the requests to a bucket.
type authorizer struct{ *Bucket }

// Send implements [fetch.Authorizer]. A signature is valid for about 15 minutes, so each try has its own. If the bucket
// is in another region, the request is sent again.
func (a authorizer) Send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	parts := strings.Split(req.URL.Path, "/")
	if slices.Contains(parts, ".") || slices.Contains(parts, "..") {
		// Documents in the bucket may contain such URLs, which some servers and proxies resolve to that of another
		// object.
		return nil, errors.New(`not requested: the path has a part "." or ".."`)
	}
	keys, err := a.chain.get(req.Context())
	if err != nil {
		return nil, err
	}
	region := a.currentRegion()
	resp, err := next.RoundTrip(a.signed(req, keys, region))
	if err != nil || resp.StatusCode < 300 {
		return resp, err
	}
	other := regionIn(resp)
	if other == region || !validRegion(other) {
		return resp, nil
	}
	a.setRegion(other)
	if req.GetBody != nil {
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	return next.RoundTrip(a.signed(req, keys, other))
}

// signed returns a request with a signature, unless there are no credentials. It goes to the host of the region.
func (a authorizer) signed(req *http.Request, keys credentials.Value, region string) *http.Request {
	req = req.Clone(req.Context())
	req.URL.Host = a.urlOf("", region).Host
	req.URL.RawPath = s3utils.EncodePath(req.URL.Path) // the signature is that of this form
	req.Host = req.URL.Host
	if keys.AccessKeyID == "" {
		req.Header.Del(payloadHeader)
		return req
	}
	if req.Header.Get(payloadHeader) == "" {
		none := sha256.Sum256(nil)
		req.Header.Set(payloadHeader, hex.EncodeToString(none[:]))
	}
	return signer.SignV4(*req, keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken, region)
}

// regionIn returns the region of the bucket, if a refusal states it.
func regionIn(resp *http.Response) string {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	said := struct{ Region string }{resp.Header.Get("X-Amz-Bucket-Region")}
	if said.Region == "" {
		_ = xml.Unmarshal(body, &said) // other answers have no region
	}
	return said.Region
}

// Hint implements [fetch.Authorizer].
func (a authorizer) Hint(refusal *fetch.StatusError) string {
	hint, _ := a.meaning(refusal)
	return hint
}
