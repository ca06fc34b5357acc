// Package bucket reads and writes objects below a prefix in a bucket of an
// S3-compatible store.
//
// A write may depend on the state of the object, so that two writers don't
// overwrite each other's changes. An object is sent in one request, whose
// signature covers the SHA-256 of the contents, so the store refuses others.
//
// Each request is a call of a fetch.Client, with the limits, retries and events
// of that. The package makes the client sign all requests to the bucket, so the
// client can also read the objects by their URLs. Credentials are sent only to the endpoint; if the
// bucket is in another region of AWS, requests go to the endpoint of that region.
// Errors and events never contain credentials, signatures or queries.
//
// The caller passes environment variables as an [Environment]. The package writes no
// files.
package bucket

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/smithy-go/aws-http-auth/sigv4"
	v4 "github.com/aws/smithy-go/aws-http-auth/v4"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// defaultRegion is where AWS says which region a bucket is in.
const defaultRegion = "us-east-1"

// Options adjust a Bucket. The zero Options are those for public buckets of AWS.
type Options struct {
	Endpoint    string              // URL of the store, with https or http; empty means AWS
	Env         Environment         // where to find credentials; without any, requests are anonymous
	Authorities []*x509.Certificate // to trust for the store, in addition to the others

	Client  *fetch.Client    // sends all requests to the store, and reads objects at their URLs; it signs both
	Secrets *sources.Secrets // gets all credentials that are read; may be nil
}

// A Bucket is a location in a store. It is safe for concurrent use.
type Bucket struct {
	At Location // that was opened

	opts     Options
	endpoint *url.URL // nil for AWS
	region   string
	chain    *chain
}

// Open returns the bucket of a location, after one or two requests. It learns in which region of AWS the bucket is, and
// fails if the store can't be reached or the bucket doesn't exist. It doesn't check permissions, because they may be
// limited to objects.
func Open(ctx context.Context, at Location, opts Options) (b *Bucket, err error) {
	b = &Bucket{At: at, opts: opts}
	if b.chain, err = newChain(opts); err != nil {
		return nil, err
	}
	region := cmp.Or(b.chain.Region, defaultRegion)
	if opts.Endpoint != "" {
		if b.endpoint, err = ParseEndpoint(opts.Endpoint); err != nil {
			return nil, err
		}
		region = cmp.Or(regionOf(b.endpoint.Hostname()), region)
	}
	if !validRegion().MatchString(region) {
		return nil, sources.WithHint(fmt.Errorf("%q is not the name of a region", region), "name one such as eu-central-1")
	}
	other, err := b.enter(ctx, region)
	if err != nil && other != region && validRegion().MatchString(other) {
		_, err = b.enter(ctx, other)
	}
	return b, err
}

// validRegion matches what may be the name of a region. With others, a server could choose the host that gets the next
// request.
var validRegion = sources.Regexp(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)

// regionOf returns the region in the name of a host of AWS, or "".
func regionOf(host string) string {
	return append(awsHost().FindStringSubmatch(host), "", "")[1]
}

var awsHost = sources.Regexp(`(?:^|\.)s3(?:-fips)?[.-](?:dualstack\.)?([a-z]+(?:-[a-z]+)+-[0-9]+)\.` +
	`(?:vpce\.)?amazonaws\.com(?:\.cn)?$`)

// enter makes the client sign the requests to the bucket in a region, and sends one. If that fails, it returns the
// region in which the bucket is, if the store states it.
func (b *Bucket) enter(ctx context.Context, region string) (other string, err error) {
	b.region = region
	root := b.urlOf("")
	if len(b.opts.Authorities) > 0 {
		b.opts.Client.Trust(root, b.opts.Authorities)
	}
	b.opts.Client.Authorize(root.String(), authorizer{b})
	// Unlike HEAD, the answer to GET contains the reason of a refusal.
	_, header, err := b.page(ctx, url.Values{"prefix": {b.At.under("")}, "max-keys": {"1"}})
	if refusal, ok := errors.AsType[*fetch.StatusError](err); ok && codeOf(refusal) == "AccessDenied" {
		err = nil
	}
	return header.Get("X-Amz-Bucket-Region"), err
}

// URL returns the URL of an object, without a signature. The name may be that
// of a directory, with a slash at the end, or empty.
func (b *Bucket) URL(name string) *url.URL { return b.urlOf(b.At.under(name)) }

// urlOf returns the URL of the object with a key, or that of the bucket if the key is empty.
func (b *Bucket) urlOf(key string) *url.URL {
	u := url.URL{Scheme: "https", Host: "s3." + b.region + ".amazonaws.com", Path: "/" + b.At.Bucket + "/" + key}
	if strings.HasPrefix(b.region, "cn-") {
		u.Host += ".cn"
	}
	switch {
	case b.endpoint != nil:
		u.Scheme, u.Host, u.Path = b.endpoint.Scheme, b.endpoint.Host, b.endpoint.Path+u.Path
	case hostLabel().MatchString(b.At.Bucket):
		// A wildcard in a certificate doesn't match dots.
		u.Host, u.Path = b.At.Bucket+"."+u.Host, "/"+key
	}
	u.RawPath = escaped(u.Path) // the signature is that of this form
	return &u
}

// hostLabel matches the name of a bucket that can be a part of a host.
var hostLabel = sources.Regexp(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)

// payloadHeader is the header with the SHA-256 of the body, which is part of a signature.
const payloadHeader = "X-Amz-Content-Sha256"

// An authorizer signs the requests to a bucket.
type authorizer struct{ *Bucket }

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
	req.URL.RawPath = escaped(req.URL.Path) // the signature is that of this form
	if keys.AccessKeyID == "" {
		req.Header.Del(payloadHeader)
		return next.RoundTrip(req)
	}
	sum, err := hex.DecodeString(req.Header.Get(payloadHeader))
	if err != nil || len(sum) == 0 {
		none := sha256.Sum256(nil)
		sum = none[:]
	}
	err = signer.SignRequest(&sigv4.SignRequestInput{
		Request: req, PayloadHash: sum, Credentials: keys, Service: "s3", Region: a.region,
	})
	if err != nil {
		return nil, err
	}
	return next.RoundTrip(req)
}

// signer signs all headers but those that others on the way may change.
var signer = sigv4.New(func(o *v4.SignerOptions) {
	o.DisableDoublePathEscape, o.AddPayloadHashHeader, o.HeaderRules = true, true, signedHeaders{}
})

type signedHeaders struct{}

// IsSigned implements [v4.SignedHeaderRules].
func (signedHeaders) IsSigned(header string) bool {
	return !slices.Contains([]string{"accept-encoding", "authorization", "user-agent"}, header)
}

// escaped returns a path in the only form that signatures have.
func escaped(path string) string {
	return strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(path))
}

// Hint implements [fetch.Authorizer].
func (a authorizer) Hint(refusal *fetch.StatusError) string {
	hint, _ := a.meaning(refusal)
	return hint
}
