// Package registry is a client for origin registries, by the provider registry
// protocol. An origin registry serves the providers that have its host in their
// address.
//
// The package finds a host's registry by service discovery, or by the host
// block in the CLI configuration. It lists versions, and returns a package's
// location, hashes and signed checksums. It does not verify the signature. It
// downloads no archives and writes no files.
package registry

import (
	"context"
	"errors"
	"net/url"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// Maximum sizes of documents, in bytes. The largest known documents are lists
// of versions with about half a megabyte.
const (
	maxDiscovery = 1 << 20
	maxDocument  = 4 << 20
	maxSignature = 1 << 20
	maxSigned    = 8 << 20 // of all checksums and signatures that are recorded
	maxFilename  = 255
	maxReleases  = 10_000 // the provider with the most has about a thousand
	maxListed    = 100    // maximum number of platforms, and of protocols, of a version
	maxWarnings  = 10     // maximum number of warnings from a registry that are passed on
)

// Options adjust a Registry. The zero Options are ready to use.
type Options struct {
	// Engine is the engine to be compatible with where the engines differ:
	// whether to read the hashes in the "packages" member, and the default
	// host.
	Engine sources.Engine

	// Services are the services in the host blocks of the CLI configuration.
	// They replace service discovery for these hosts.
	Services map[sources.Host]map[string]string

	// Details adds the platforms and protocols of each version to listings.
	Details bool
}

// A Registry is the union of all origin registries as one source. The
// provider's host determines which registry it queries. It is safe for
// concurrent use. A program should use only one, because it records the results
// of service discovery.
type Registry struct {
	client *fetch.Client
	opts   Options

	found  sources.Memo[sources.Host, *url.URL]
	signed sources.Memo[string, []byte] // by URL: checksums and signatures, which the packages of a version share
}

var _ sources.Source = (*Registry)(nil)

// New returns a source for all origin registries.
func New(client *fetch.Client, opts Options) *Registry {
	size := func(b []byte) int { return 1<<10 + len(b) }
	return &Registry{client: client, opts: opts, signed: sources.Memo[string, []byte]{Max: maxSigned, Weigh: size}}
}

func (r *Registry) String() string { return "the origin registry" }

// name returns the name of a host's registry for messages.
func name(host sources.Host) string { return "registry " + string(host) }

// Versions lists the versions in p's registry. It skips entries that are not
// versions, with a warning. If the registry does not have the provider, the
// error is a *sources.NotFoundError with Registry set. Other errors have the
// type *sources.ProviderError.
func (r *Registry) Versions(ctx context.Context, p sources.Provider) (sources.Listing, error) {
	var listing sources.Listing
	doc, err := r.versions(ctx, p, func(d *versionsDocument) {
		if listing = d.listing(); r.opts.Details {
			listing.Details = d.details()
		}
	})
	if errors.Is(err, sources.ErrNotFound) {
		return sources.Listing{}, &sources.NotFoundError{
			Provider: p, Searched: []string{fetch.Answering(name(p.Host), err)}, Registry: true, Moved: r.moved(ctx, p),
		}
	}
	if err != nil {
		return sources.Listing{}, &sources.ProviderError{Provider: p, Source: name(p.Host), Err: err}
	}
	listing.From = []string{fetch.At(name(p.Host), doc.Place(), "")}
	return listing, nil
}

// get fetches a document from a registry, and has read decode it. The error for a 404
// answer matches sources.ErrNotFound.
func (r *Registry) get(
	ctx context.Context, host sources.Host, path string, read func(*fetch.Document) error,
) (*fetch.Document, error) {
	base, err := r.Discover(ctx, host)
	if err != nil {
		return nil, err
	}
	at := base.ResolveReference(&url.URL{Path: path})
	doc, err := r.client.Document(ctx, fetch.Request{
		URL:         at.String(),
		TokenOf:     r.tokenOf(host),
		Limit:       maxDocument,
		Credentials: true,
		For:         host,
		Read:        read,
	})
	return doc, fetch.Absent(err)
}

// tokenOf returns the host whose token a host's registry gets. If the user has
// named the services in a host block, that is the host itself, as in engines. If
// a discovery document has, it is empty: the registry gets the token for its
// own host.
func (r *Registry) tokenOf(host sources.Host) sources.Host {
	if _, ok := r.opts.Services[host]; ok {
		return host
	}
	return ""
}
