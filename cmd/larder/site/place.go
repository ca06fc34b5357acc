package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/oci"
)

// A PlaceRequest names a place to read from.
type PlaceRequest struct {
	Place string       // as typed; empty if there is none
	Host  sources.Host // of the providers, if the place doesn't state it; empty means that of the engine
}

// Browser opens a place to read from. All root modules of an engine share it.
func (m *Root) Browser(ctx context.Context, r PlaceRequest) (publish.Browser, error) {
	switch scheme := SchemeOf(r.Place); {
	case m.Flags.Offline:
		return nil, fmt.Errorf("%s: %w", r.Place, sources.ErrOffline)
	case scheme == InOCI:
		return m.OpenOCI(r, false)
	case scheme == InBucket:
		b, err := m.OpenBucket(ctx, r)
		if err != nil {
			return nil, err
		}
		secure := b.URL("").Scheme == "https"
		mirror, err := netmirror.New(m.Client, b.URL("").String(), netmirror.Options{Plain: !secure, SecureArchives: secure})
		return publish.BrowseBucket(b, mirror), err
	}
	mirror, err := netmirror.New(m.Client, r.Place, netmirror.Options{})
	if err != nil {
		return nil, err
	}
	return publish.BrowseNetwork(mirror), nil
}

// The schemes of the places that aren't directories.
const (
	InOCI    = "oci"
	InBucket = "s3"
)

// SchemeOf returns the scheme of an argument that is a URL, and not a path, or "". It may be http, so that the error is
// about the scheme, and not about a missing directory.
func SchemeOf(typed string) string {
	scheme, _, isURL := strings.Cut(typed, "://")
	scheme = strings.ToLower(scheme)
	if !isURL || !slices.Contains([]string{InOCI, InBucket, "https", "http"}, scheme) {
		return ""
	}
	return scheme
}

// IsPlace reports whether an argument is a URL, and not a path.
func IsPlace(typed string) bool { return SchemeOf(typed) != "" }

// CheckEndpoint returns an error for a wrong value of --endpoint, which may be empty, and for one that none of the
// places needs.
func CheckEndpoint(url string, places ...string) error {
	if url == "" {
		return nil
	}
	if !slices.ContainsFunc(places, func(typed string) bool { return SchemeOf(typed) == InBucket }) {
		return report.Usage(errors.New("--endpoint requires a place s3://BUCKET/PREFIX"))
	}
	if _, err := bucket.ParseEndpoint(url); err != nil {
		return report.Usage(fmt.Errorf("--endpoint: %w", err))
	}
	return nil
}

// DirectoryOnly returns an error for a place where a command needs the directory of a mirror.
func DirectoryOnly(typed string) error {
	if !IsPlace(typed) {
		return nil
	}
	err := fmt.Errorf("%s is not a directory", typed)
	return report.Usage(sources.WithHint(err, "larder mirror push DIR PLACE, also with --prune, updates a place "+
		"from the directory of a mirror; larder mirror sync DIR --from PLACE fetches from a place"))
}

// ociMirror returns the mirror for a template in OCI registries.
func (m *Root) ociMirror(template oci.Template, push bool) *oci.Mirror {
	return oci.New(m.Client, template, oci.Access{
		Push: push, Credentials: m.Config.OCICredentials, TokenServer: m.Config.OCITokenServer, Hint: m.Config.OCIHint,
	})
}

// OpenBucket opens a place in an S3-compatible store.
func (m *Root) OpenBucket(ctx context.Context, r PlaceRequest) (*bucket.Bucket, error) {
	at, err := bucket.ParseURL(r.Place)
	if err != nil {
		return nil, report.Usage(err)
	}
	env := m.Config.AWS
	authorities, err := m.Config.AWSAuthorities()
	if err != nil {
		return nil, err
	}
	return bucket.Open(ctx, at, bucket.Options{
		Endpoint: cmp.Or(m.Flags.Endpoint, env.Endpoint), Env: env, Authorities: authorities,
		Client: m.Client, Secrets: m.Output.Secrets(),
	})
}

// OpenOCI opens a place oci://HOST/TEMPLATE, to read from or to push to.
func (m *Root) OpenOCI(r PlaceRequest, push bool) (*publish.OCI, error) {
	_, at, _ := strings.Cut(r.Place, "://")
	template, err := oci.ParseTemplate(at)
	_, path, _ := strings.Cut(at, "/")
	replaced := path == "" || strings.HasSuffix(path, "/") || strings.Contains(path, "//")
	if err != nil && replaced && !strings.Contains(r.Place, "$") {
		err = sources.WithHint(err,
			"write it in single quotes: in double quotes or without any, the shell replaces ${namespace} and ${type}")
	}
	if err != nil {
		return nil, report.Usage(fmt.Errorf("%s: %w", r.Place, err))
	}
	host := cmp.Or(r.Host, m.Config.Engine.DefaultHost())
	return &publish.OCI{Mirror: m.ociMirror(template, push), URL: r.Place, Host: host}, nil
}
