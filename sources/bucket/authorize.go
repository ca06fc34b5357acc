package bucket

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/larder-cli/larder/sources/fetch"
)

// payloadHeader is the header with the SHA-256 of the body, which is part of a signature.
const payloadHeader = "X-Amz-Content-Sha256"

// An authorizer signs the requests to a bucket in a region.
type authorizer struct {
	*Bucket
	region string
}

// Send implements [fetch.Authorizer]. A signature is valid for about 15 minutes, so each try has its own. Without
// credentials, there is none.
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
	req = req.Clone(req.Context())
	req.URL.RawPath = s3utils.EncodePath(req.URL.Path) // the signature is that of this form
	if keys.AccessKeyID == "" {
		req.Header.Del(payloadHeader)
		return next.RoundTrip(req)
	}
	if req.Header.Get(payloadHeader) == "" {
		none := sha256.Sum256(nil)
		req.Header.Set(payloadHeader, hex.EncodeToString(none[:]))
	}
	return next.RoundTrip(signer.SignV4(*req, keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken, a.region))
}

// Hint implements [fetch.Authorizer].
func (a authorizer) Hint(refusal *fetch.StatusError) string {
	hint, _ := a.meaning(refusal)
	return hint
}
