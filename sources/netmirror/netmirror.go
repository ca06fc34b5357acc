// Package netmirror is a client for network mirrors, by the provider network
// mirror protocol. A network mirror is a server, or files on one, with packages
// of many registries.
//
// The package lists versions, and returns a package's location and the hashes
// that the mirror has for it. It fetches evidence if VERSION.json refers to
// some, as in mirrors created by Larder. Without a reference it sends no
// request for evidence. It downloads no archives and writes no files.
package netmirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/trust"
)

// maxDocument is the maximum size of a mirror's document, in bytes. The longest
// known index has a thousand versions, and a fiftieth of this size.
const maxDocument = 1 << 20

// maxSigned is how many bytes of evidence are recorded.
const maxSigned = 8 << 20

// redirects is the number of redirects that engines follow for a mirror's
// documents.
const redirects = 5

// Options adjust a Mirror. The zero Options are ready to use.
type Options struct {
	// TrustAllHashes trusts the mirror's hashes for all platforms, as OpenTofu
	// does. For providers of OpenTofu's registry, they are offered for the lock
	// file. A package for which the mirror has no hash must match one of
	// another platform's hashes.
	TrustAllHashes bool

	// Plain permits an http URL. Engines refuse such mirrors.
	Plain bool

	// SecureArchives refuses archives at http URLs. Engines accept them.
	SecureArchives bool
}

// A Mirror is a network mirror. It is safe for concurrent use.
type Mirror struct {
	client *fetch.Client
	base   *url.URL
	opts   Options
	set    sources.Memo[struct{}, *trust.Set]
	signed sources.Memo[string, *sources.Signed] // evidence, by its URL and checksums, shared by the packages of a version
}

var _ sources.Source = (*Mirror)(nil)

// New returns the mirror with a base URL, which must be an https URL unless [Options].Plain is set. If the
// base URL does not end in a slash, one is added. Engines instead drop the last
// segment of such a URL, which is never the intention.
func New(client *fetch.Client, baseURL string, opts Options) (*Mirror, error) {
	base, err := fetch.Resolve(&url.URL{}, baseURL)
	if err != nil {
		return nil, fmt.Errorf("network mirror %s: %w", fetch.Redact(baseURL), err)
	}
	if base.Scheme != "https" && !opts.Plain {
		return nil, fmt.Errorf("network mirror %s: not an https URL", fetch.Redact(baseURL))
	}
	if !strings.HasSuffix(base.Path, "/") {
		base.Path += "/"
		if base.RawPath != "" {
			base.RawPath += "/"
		}
	}
	return &Mirror{client: client, base: base, opts: opts, signed: sources.Memo[string, *sources.Signed]{
		Max: maxSigned, Weigh: (*sources.Signed).Size,
	}}, nil
}

func (m *Mirror) String() string { return "network mirror " + fetch.Redact(m.base.String()) }

// Versions lists the versions of p in the mirror. It skips keys that are not
// versions, with a warning. Errors have the type *sources.ProviderError.
func (m *Mirror) Versions(ctx context.Context, p sources.Provider) (sources.Listing, error) {
	listing, err := m.list(ctx, p)
	if err != nil {
		return sources.Listing{}, &sources.ProviderError{Provider: p, Source: fetch.Answering(m.String(), err), Err: err}
	}
	return listing, nil
}

// list lists the keys of index.json. The values have no meaning.
func (m *Mirror) list(ctx context.Context, p sources.Provider) (listing sources.Listing, err error) {
	_, err = m.get(ctx, p, "index.json", func(doc *fetch.Document) error {
		var index struct{ Versions map[string]*struct{} }
		if err := doc.JSON(&index); err != nil {
			return err
		}
		listing = sources.ListVersions("mirror", slices.Sorted(maps.Keys(index.Versions)), doc.Said)
		listing.From = []string{"network mirror " + doc.Place()}
		return nil
	})
	return listing, fetch.Absent(err)
}

// Package returns a package with its location and hashes. Errors have the type
// *sources.PackageError.
func (m *Mirror) Package(ctx context.Context, id sources.PackageID) (p sources.Package, err error) {
	defer func() {
		if err != nil {
			p, err = sources.Package{}, &sources.PackageError{ID: id, Source: fetch.Answering(m.String(), err), Err: err}
		}
	}()
	doc, version, err := m.version(ctx, id.Release())
	if err != nil {
		return p, m.missing(ctx, id, err)
	}
	if version.Archives != nil && len(version.Archives) == 0 { // larder mirror push --prune has removed it
		listing, err := m.list(ctx, id.Provider)
		if err == nil && !slices.Contains(listing.Versions, id.Version) {
			return p, doc.Wrap(sources.WithHint(sources.ErrNotFound, "%s does not have this version", m))
		}
	}
	if p, err = m.parsePackage(doc, version, id); err != nil {
		return p, doc.Wrap(err)
	}
	p.Source = m.String()
	p.Signed, p.Warnings = m.evidence(ctx, doc, version, id.Version)
	return p, ctx.Err()
}

// missing returns the error for a version whose document cannot be fetched. If
// the document is missing although the mirror's index lists the version, the
// error is final, and no other source is queried. If the index does not list it
// either, another method has listed the version.
func (m *Mirror) missing(ctx context.Context, id sources.PackageID, err error) error {
	absent := fetch.Absent(err)
	if !errors.Is(absent, sources.ErrNotFound) {
		return err
	}
	listing, listErr := m.list(ctx, id.Provider)
	switch {
	case errors.Is(listErr, sources.ErrNotFound), listErr == nil && !slices.Contains(listing.Versions, id.Version):
		return sources.WithHint(absent, "%s does not have this version", m)
	case listErr == nil:
		return sources.WithHint(err, "the mirror's index.json names this version, but there is no document for it")
	}
	return err
}

// A version is the contents of VERSION.json.
type version struct {
	Archives map[string]*archive
	Larder   json.RawMessage // an [evidence.Extension], decoded only when required
}

// version fetches the document of a version.
func (m *Mirror) version(ctx context.Context, r sources.Release) (doc *fetch.Document, v version, err error) {
	doc, err = m.get(ctx, r.Provider, r.Version.String()+".json", func(doc *fetch.Document) error {
		err := doc.JSON(&v)
		if err == nil && len(v.Archives) == 0 {
			err = doc.Refusal("a list of archives")
		}
		return err
	})
	return doc, v, err
}

// platforms returns the platforms with an archive, sorted. Clients can't request names that are no platforms.
func (v version) platforms() []sources.Platform {
	var all []sources.Platform
	for name, archive := range v.Archives {
		if p, err := sources.ParsePlatform(name); err == nil && archive != nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, sources.Platform.Compare)
	return all
}

// An archive is the entry for one platform in VERSION.json.
type archive struct {
	URL    string
	Hashes []string
}

// resolve returns the URL of an archive.
func (m *Mirror) resolve(doc *fetch.Document, a *archive) (*url.URL, error) {
	at, err := fetch.Resolve(doc.URL, a.URL)
	if err == nil && m.opts.SecureArchives && at.Scheme != "https" {
		err = fmt.Errorf("%s is not an https URL", fetch.Redact(at.String()))
	}
	return at, err
}

func (m *Mirror) parsePackage(doc *fetch.Document, version version, id sources.PackageID) (sources.Package, error) {
	a := version.Archives[id.Platform.String()]
	if a == nil {
		return sources.Package{}, noPlatform(id, sources.Texts(version.platforms()))
	}
	at, err := m.resolve(doc, a)
	if err != nil {
		return sources.Package{}, fmt.Errorf("url of %s: %w", id.Platform, err)
	}
	hashes, err := parseHashes(a.Hashes)
	if err != nil {
		return sources.Package{}, err
	}
	if len(hashes) > 0 && !slices.ContainsFunc(hashes, sources.Hash.Usable) {
		return sources.Package{}, errors.New("the mirror states only hashes with unknown schemes")
	}
	p := sources.Package{
		ID:       id,
		Location: sources.Location{URL: at.String()},
		Filename: path.Base(at.Path),
		Hashes:   hashes,
		Kind:     sources.FromNetwork,
	}
	p.Others, _ = hashesOf(version.Archives, func(name string) bool { // invalid ones only matter to their platform
		other, err := sources.ParsePlatform(name)
		return err == nil && other != id.Platform
	})
	if !m.opts.TrustAllHashes {
		return p, nil
	}
	all, err := hashesOf(version.Archives, func(string) bool { return true })
	if len(p.Hashes) == 0 {
		p.Hashes = all // these are the hashes of other platforms, so that no archive is accepted unchecked
	}
	if id.Provider.Host == sources.OpenTofu.DefaultHost() {
		p.Offered = all
	}
	return p, err
}

// Release returns the mirror's contents for a version. The error matches
// [sources.ErrNotFound] if the mirror does not have the version.
func (m *Mirror) Release(ctx context.Context, p sources.Provider, v sources.Version) (r sources.Holding, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("version %s: %w", v, err)
			err = &sources.ProviderError{Provider: p, Source: fetch.Answering(m.String(), err), Err: err}
		}
	}()
	doc, version, err := m.version(ctx, sources.Release{Provider: p, Version: v})
	if err != nil {
		return r, fetch.Absent(err)
	}
	r.Provider, r.Archives = p, map[sources.Platform]sources.HeldArchive{}
	for _, platform := range version.platforms() {
		archive := version.Archives[platform.String()]
		at, err := m.resolve(doc, archive)
		if err != nil {
			return r, doc.Wrap(fmt.Errorf("url of %s: %w", platform, err))
		}
		hashes, err := parseHashes(archive.Hashes)
		if err != nil {
			return r, fmt.Errorf("%s: %w", platform, err)
		}
		r.Archives[platform] = sources.HeldArchive{URL: at.String(), Hashes: hashes}
	}
	r.Signed, r.Warnings = m.evidence(ctx, doc, version, v)
	return r, ctx.Err()
}

// Detail implements [sources.Detailer]. Mirrors don't state protocols.
func (m *Mirror) Detail(ctx context.Context, r sources.Release) (detail sources.Detail, err error) {
	_, version, err := m.version(ctx, r)
	if err != nil {
		return detail, fetch.Absent(err)
	}
	detail.Platforms = append([]sources.Platform{}, version.platforms()...) // known, if there are none
	return detail, nil
}

func noPlatform(id sources.PackageID, there []string) error {
	if len(there) == 0 {
		return sources.WithHint(sources.ErrNoPlatform,
			"the mirror's %s/%s.json lists no archives; rebuild it, for example with larder mirror index DIR",
			id.Provider, id.Version)
	}
	return sources.WithHint(sources.ErrNoPlatform, "the mirror has %s for %s",
		id.Release(), fetch.Printable(strings.Join(there, ", ")))
}

func parseHashes(texts []string) ([]sources.Hash, error) {
	var hashes []sources.Hash
	for _, text := range texts {
		hash, err := sources.ParseHash(text)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, hash.Canonical())
	}
	return hashes, nil
}

// hashesOf returns the hashes of some platforms, sorted and without duplicates. It
// skips platforms with invalid hashes, and returns the error of the first one.
func hashesOf(archives map[string]*archive, some func(platform string) bool) (all []sources.Hash, err error) {
	for _, platform := range slices.Sorted(maps.Keys(archives)) {
		if archives[platform] == nil || !some(platform) {
			continue
		}
		hashes, invalid := parseHashes(archives[platform].Hashes)
		if invalid != nil && err == nil {
			err = fmt.Errorf("%q: %w", platform, invalid)
		}
		all = append(all, hashes...)
	}
	return sources.SortHashes(all), err
}

// get fetches a document about p, and has read decode it. The path is assembled from segments, so that
// a host with a port in it is not parsed as a URL scheme.
func (m *Mirror) get(
	ctx context.Context, p sources.Provider, file string, read func(*fetch.Document) error,
) (*fetch.Document, error) {
	below := &url.URL{Path: path.Join(p.Host.ASCII(), p.Namespace, p.Type, file)}
	return m.client.Document(ctx, fetch.Request{
		URL:         m.base.ResolveReference(below).String(),
		Limit:       maxDocument,
		Redirects:   redirects,
		Credentials: true,

		Read: func(doc *fetch.Document) error {
			if err := doc.CheckJSON(); err != nil {
				return err
			}
			return read(doc)
		},
	})
}
