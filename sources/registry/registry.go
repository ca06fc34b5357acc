// Package registry asks origin registries, each of which serves the providers
// that have its host in their address, by the provider registry protocol.
//
// It finds a host's registry by service discovery or the CLI configuration's
// host block, lists versions, and returns where a package is, its hashes and its
// signed checksums. It does not check the signature. It downloads no archives and
// leaves nothing on disk.
package registry

import (
	"context"
	"errors"
	"net/url"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// Limits on documents, in bytes. The largest seen are the lists of versions,
// at around half a megabyte.
const (
	maxDiscovery = 1 << 20
	maxVersions  = 4 << 20
	maxPackage   = 4 << 20
	maxSums      = 4 << 20
	maxSignature = 1 << 20
	maxFilename  = 255
	maxReleases  = 50_000
	maxWarnings  = 10 // that are passed on, of however many
)

// Options adjust a Registry. The zero Options are ready to use.
type Options struct {
	// Engine is the engine to be compatible with where they differ: whether
	// hashes in the "packages" member are read, and which host is the default.
	Engine sources.Engine

	// Services are the host blocks of the CLI configuration, each of which
	// replaces its host's service discovery.
	Services map[sources.Host]map[string]string
}

// A Registry is all origin registries as one source: which one to ask follows
// from the provider. It is safe for concurrent use, and should be the only one
// of a program, as it remembers what it has discovered.
type Registry struct {
	client *fetch.Client
	opts   Options

	found  sources.Memo[sources.Host, *url.URL]
	signed sources.Memo[string, []byte] // checksums and signatures, which the packages of a version share, by URL
}

var _ sources.Source = (*Registry)(nil)

// New returns the origin registries, asked by means of client.
func New(client *fetch.Client, opts Options) *Registry {
	return &Registry{client: client, opts: opts}
}

func (r *Registry) String() string { return "the origin registry" }

// name is the source as the messages about one host name it.
func name(host sources.Host) string { return "registry " + string(host) }

// Versions lists the versions that p's registry has. An entry that is not a
// version is passed over with a warning. The error is a *sources.NotFoundError
// with Registry set if the registry has no such provider, and else of type
// *sources.ProviderError.
func (r *Registry) Versions(ctx context.Context, p sources.Provider) (sources.Listing, error) {
	doc, err := r.versions(ctx, p)
	if errors.Is(err, sources.ErrNotFound) {
		return sources.Listing{}, &sources.NotFoundError{
			Provider: p, Searched: []string{fetch.Answering(name(p.Host), err)}, Registry: true, Moved: r.moved(ctx, p),
		}
	}
	if err != nil {
		return sources.Listing{}, &sources.ProviderError{Provider: p, Source: name(p.Host), Err: err}
	}
	listing := doc.listing()
	listing.From = []string{name(p.Host)}
	return listing, nil
}

// Package says where a package is, with its signed checksums. Errors are of
// type *sources.PackageError, and wrap a *ProtocolError if the package is one
// that no engine we know could run.
func (r *Registry) Package(ctx context.Context, id sources.PackageID) (sources.Package, error) {
	p, err := r.locate(ctx, id)
	if err != nil {
		return sources.Package{}, &sources.PackageError{ID: id, Source: fetch.Answering(name(id.Provider.Host), err), Err: err}
	}
	return p, nil
}

// get asks for a document of a registry. An answer of 404 matches
// sources.ErrNotFound.
func (r *Registry) get(ctx context.Context, host sources.Host, path string, limit int64) (*fetch.Document, error) {
	base, err := r.found.Get(ctx, host, func() (*url.URL, error) { return r.discover(ctx, host) })
	if err != nil {
		return nil, err
	}
	var moved sources.Host
	if _, ok := r.opts.Services[host]; ok {
		moved = host
	}
	doc, err := r.client.Document(ctx, fetch.Request{
		URL:         base.ResolveReference(&url.URL{Path: path}).String(),
		Behalf:      moved,
		Accept:      "application/json",
		Limit:       limit,
		Credentials: true,
	})
	return doc, fetch.Absent(r.explain(err, host))
}
