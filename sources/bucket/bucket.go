// Package bucket reads and writes objects below a prefix in a bucket of an
// S3-compatible store.
//
// A write may depend on the state of the object, so that two writers don't
// overwrite each other's changes. Large objects are uploaded in parts. The store
// verifies a checksum of everything that it receives.
//
// minio-go knows the protocol. Each of its requests is a call of a fetch.Client, with
// the limits, retries and events of that, and without credentials. The package
// makes the client sign all requests to the bucket, so the client can also read
// the objects by their URLs. Credentials are sent only to the endpoint; if the
// bucket is in another region of AWS, requests go to the endpoint of that region.
// Errors and events never contain credentials, signatures or queries.
//
// The package reads no environment variables; the caller passes them as an
// [Environment]. It writes no files.
package bucket

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// Options adjust a Bucket. The zero Options are those for public buckets of AWS.
type Options struct {
	Endpoint string      // URL of the store, with https or http; empty means AWS
	Env      Environment // where to find credentials; without any, requests are anonymous

	Client  *fetch.Client    // sends all requests to the store, and reads objects at their URLs; it signs both
	Secrets *sources.Secrets // gets all credentials that are read; may be nil
}

// A Bucket is a location in a store. It is safe for concurrent use.
type Bucket struct {
	at       Location
	opts     Options
	endpoint *url.URL // nil for AWS
	chain    *chain
	client   *minio.Client
	sending  chan struct{} // a slot for each large body of a request, which is in memory

	authorities []*x509.Certificate // of the file in AWS_CA_BUNDLE
	region      atomic.Value        // a string
}

// Open returns the bucket of a location, after one request. It learns the
// bucket's region, and fails if the store can't be reached or the bucket doesn't
// exist. It doesn't check permissions, because they may be limited to objects.
func Open(ctx context.Context, at Location, opts Options) (*Bucket, error) {
	b, err := prepare(at, opts)
	if err != nil {
		return nil, err
	}
	// Unlike HEAD, the answer to GET contains the reason of a refusal.
	err = b.do(ctx, &operation{}, func(ctx context.Context) error {
		for o := range b.client.ListObjectsIter(ctx, at.Bucket, minio.ListObjectsOptions{
			Prefix: at.under(""), Recursive: true, MaxKeys: 1,
		}) {
			return o.Err
		}
		return ctx.Err()
	})
	if e, ok := errors.AsType[*Error](err); err == nil || ok && e.Code == "AccessDenied" {
		return b, nil
	}
	return nil, err
}

// prepare is Open without the request.
func prepare(at Location, opts Options) (*Bucket, error) {
	b := &Bucket{at: at, opts: opts, chain: newChain(opts), sending: make(chan struct{}, maxSending)}
	region := first(b.chain.region(), defaultRegion)
	if !validRegion(region) {
		return nil, sources.WithHint(fmt.Errorf("%q is not the name of a region", region), "name one such as eu-central-1")
	}
	var err error
	if b.client, err = b.newClient(); err != nil {
		return nil, err
	}
	if opts.Endpoint != "" {
		if b.endpoint, err = ParseEndpoint(opts.Endpoint); err != nil {
			return nil, err
		}
		region = first(s3utils.GetRegionFromURL(*b.endpoint), region)
	}
	if opts.Env.CABundle != "" {
		if b.authorities, err = readAuthorities(opts.Env.CABundle); err != nil {
			return nil, err
		}
	}
	b.setRegion(region)
	return b, nil
}

// first returns the first value that isn't zero.
func first[T comparable](values ...T) (v T) {
	var zero T
	for _, v = range values {
		if v != zero {
			break
		}
	}
	return v
}

// Location returns the location that was opened.
func (b *Bucket) Location() Location { return b.at }

// ParseEndpoint parses the URL of a store, as in [Options]. Errors don't quote user information.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.Opaque != "":
		err = errors.New("the endpoint is not an https:// or http:// URL")
	case u.User != nil:
		return nil, sources.WithHint(errors.New("the endpoint can't contain credentials"),
			"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
	case u.RawQuery != "" || u.Fragment != "":
		err = errors.New("the endpoint can't contain ? or #")
	default:
		return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}, nil
	}
	return nil, sources.WithHint(err, "write it as https://HOST or https://HOST:PORT, without the bucket")
}

var region = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)

// validRegion reports whether a text may be the name of a region. With others, a
// server could choose the host that gets the next request.
func validRegion(text string) bool { return region.MatchString(text) }

func (b *Bucket) currentRegion() string { return b.region.Load().(string) }

// setRegion sets the region of the bucket, and makes the client sign the requests to the bucket there.
func (b *Bucket) setRegion(region string) {
	b.region.Store(region)
	root := b.urlOf("", region)
	if len(b.authorities) > 0 {
		b.opts.Client.Trust(root, b.authorities)
	}
	b.opts.Client.Authorize(root.String(), authorizer{b})
}

// URL returns the URL of an object, without a signature. The name may be that
// of a directory, with a slash at the end, or empty.
func (b *Bucket) URL(name string) *url.URL { return b.urlOf(b.at.under(name), b.currentRegion()) }

// urlOf returns the URL of the object with a key in a region, or that of the
// bucket if the key is empty.
func (b *Bucket) urlOf(key, region string) *url.URL {
	u := url.URL{Scheme: "https", Host: awsHost(region), Path: "/" + b.at.Bucket + "/" + key}
	switch {
	case b.endpoint != nil:
		u.Scheme, u.Host, u.Path = b.endpoint.Scheme, b.endpoint.Host, b.endpoint.Path+u.Path
	case s3utils.CheckValidBucketNameStrict(b.at.Bucket) == nil && !strings.Contains(b.at.Bucket, "."):
		// A wildcard in a certificate doesn't match dots.
		u.Host, u.Path = b.at.Bucket+"."+u.Host, "/"+key
	}
	u.RawPath = s3utils.EncodePath(u.Path) // the signature is that of this form
	return &u
}

// awsHost returns the host of S3 in a region of AWS.
func awsHost(region string) string {
	host := "s3." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	return host
}
