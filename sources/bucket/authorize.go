package bucket

import (
	"net/http"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/larder-cli/larder/sources/fetch"
)

// authorize makes the client sign the requests for the URLs of objects.
func (b *Bucket) authorize() error {
	if b.opts.Client == nil {
		return nil
	}
	root := b.urlOf("", b.currentRegion())
	if bundle := b.opts.Env.CABundle; bundle != "" {
		authorities, err := Authorities(bundle)
		if err != nil {
			return err
		}
		b.opts.Client.Trust(root, authorities)
	}
	b.opts.Client.Authorize(root.String(), authorizer{b})
	return nil
}

// An authorizer signs requests for the objects of a bucket.
type authorizer struct{ *Bucket }

// Send implements [fetch.Authorizer]. A signature is valid for about 15 minutes, so each try has its own.
func (a authorizer) Send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	keys, err := a.chain.get(req.Context())
	if err != nil {
		return nil, &fetch.CredentialsError{Err: err}
	}
	req = req.Clone(req.Context())
	req.URL.RawPath = s3utils.EncodePath(req.URL.Path) // the signature is that of this form
	req.Header.Set("X-Amz-Content-Sha256", emptySum)
	sign(req, keys, a.currentRegion())
	return next.RoundTrip(req)
}

// Hint implements [fetch.Authorizer].
func (a authorizer) Hint(refusal *fetch.StatusError) string {
	e := &Error{signed: refusal.Credentials}
	if len(refusal.Codes) > 0 {
		e.Code = refusal.Codes[0]
	}
	return a.unauthorized(e, call{method: http.MethodGet, key: "object"})
}
