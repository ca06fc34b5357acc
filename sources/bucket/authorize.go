package bucket

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// payloadHeader is the header with the SHA-256 of the body, which is part of a signature.
const payloadHeader = "X-Amz-Content-Sha256"

// An authorizer signs the requests to a bucket.
type authorizer struct{ *Bucket }

// Send implements [fetch.Authorizer]. A signature is valid for about 15 minutes, so each try has its own. If the
// credentials have expired, or the bucket is in another region, the request is sent again.
func (a authorizer) Send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if hasDots(req.URL.Path) {
		return nil, errDots
	}
	for renewed, moved := false, false; ; {
		keys, err := a.chain.get(req.Context())
		if err != nil {
			return nil, err
		}
		region := a.currentRegion()
		resp, err := next.RoundTrip(a.signed(req, keys, region))
		if err != nil || resp.StatusCode < 300 {
			return resp, err
		}
		code, other := readRefusal(resp, keys)
		switch {
		case !moved && validRegion(other) && other != region:
			moved = true
			a.setRegion(other)
		case !renewed && slices.Contains(expiredCodes, code) && a.chain.renew():
			renewed = true
		default:
			return resp, nil
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// errDots is the error of a URL that some servers and proxies would resolve to that of another object.
var errDots = errors.New(`not requested: the path has a part "." or ".."`)

// hasDots reports whether a path has parts that refer to directories. Documents in the bucket may contain such URLs.
func hasDots(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
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

// readRefusal returns the code in an answer, and the region of the bucket, if the store returned them. It removes the
// credentials from the answer, because some stores repeat them.
func readRefusal(resp *http.Response, keys credentials.Value) (code, region string) {
	var said struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Region  string
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body.Close()
	for _, secret := range []string{keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken} {
		if len(secret) >= shortSecret { // a shorter one is no secret, and part of other words
			body = bytes.ReplaceAll(body, []byte(secret), []byte("…"))
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	_ = xml.Unmarshal(bytes.TrimSpace(body), &said) // other answers have no code
	return said.Code, strings.TrimSpace(first(resp.Header.Get("X-Amz-Bucket-Region"), said.Region))
}

// Hint implements [fetch.Authorizer].
func (a authorizer) Hint(refusal *fetch.StatusError) string {
	code := a.codeOf(refusal)
	switch kind := a.kind(refusal); {
	case errors.Is(kind, ErrNoConditions):
		return "use a store with conditional writes, or update it; " +
			"without them, copy the mirror with another tool, one copy at a time"
	case errors.Is(kind, ErrFull):
		return "remove objects, or raise the quota of the bucket"
	case errors.Is(kind, fetch.ErrUnauthorized):
		return a.unauthorized(refusal, code)
	case code == "" && refusal.Code == http.StatusNotFound && a.endpoint != nil:
		return fmt.Sprintf("name the URL of an S3-compatible store in --endpoint or AWS_ENDPOINT_URL_S3: "+
			"%s doesn't answer like one", a.endpoint.Host)
	case code == "NoSuchBucket" && a.endpoint == nil:
		return "create the bucket, or name the store that has it in --endpoint"
	case code == "NoSuchBucket":
		return fmt.Sprintf("create the bucket on %s, or correct its name", a.endpoint.Host)
	case refusal.Code < 400 && a.endpoint != nil:
		return "name the address that the store redirects to in --endpoint"
	}
	return ""
}

// unauthorized returns the hint for a request that the store refused.
func (a authorizer) unauthorized(refusal *fetch.StatusError, code string) string {
	origin := a.chain.origin()
	switch {
	case !refusal.Credentials:
		return "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	case code == "RequestTimeTooSkewed", code == "RequestExpired":
		return "set the clock of this machine: the store refuses signatures of another time"
	case slices.Contains(expiredCodes, code):
		return "the credentials have expired: sign in again"
	case code == "InvalidAccessKeyId", code == "InvalidToken":
		return "the store doesn't accept the access key from " + origin + ": correct it, or choose another with AWS_PROFILE"
	case code == "SignatureDoesNotMatch":
		return "correct the secret of the access key from " + origin + ", or set AWS_REGION to the region of the store"
	}
	permission := permissions[refusal.Request.Method]
	if a.aboutBucket(refusal.Request) {
		permission = "s3:ListBucket"
	}
	return fmt.Sprintf("allow %s for this object to the user of the credentials from %s", permission, origin)
}

// permissions are those that requests about objects require, as policies name them.
var permissions = map[string]string{
	http.MethodGet: "s3:GetObject", http.MethodHead: "s3:GetObject", http.MethodDelete: "s3:DeleteObject",
	http.MethodPut: "s3:PutObject", http.MethodPost: "s3:PutObject",
}

// readAuthorities returns the certificates in the PEM file that AWS_CA_BUNDLE names.
func readAuthorities(path string) ([]*x509.Certificate, error) {
	data, err := readFile(path, maxBundle)
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("AWS_CA_BUNDLE: %w", err), "correct AWS_CA_BUNDLE, or unset it")
	}
	var all []byte
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			all = append(all, block.Bytes...)
		}
	}
	authorities, err := x509.ParseCertificates(all)
	if err != nil || len(authorities) == 0 {
		err = fmt.Errorf("AWS_CA_BUNDLE: %s contains no certificate, or one that can't be read", path)
		return nil, sources.WithHint(err, "name a file in PEM form")
	}
	return authorities, nil
}
