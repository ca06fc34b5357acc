// Package oci reads providers in OCI registries, in the form that OpenTofu installs with its method oci_mirror.
//
// A template maps each provider to a repository. A tag for each version refers to an index, which refers to a manifest for each
// platform, which refers to the archive. Evidence is a referrer of the index, as Larder pushes it. The digest of an
// archive is its checksum, so Larder has it before the download. The package downloads no archives and writes no files.
//
// The format is documented at https://opentofu.org/docs/cli/oci_registries/provider-mirror/.
package oci

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// maxManifest is the maximum size of a manifest or an index, in bytes. OpenTofu rounds down to MiB, and accepts four.
const maxManifest = 5<<20 - 1

// Limits of a list in all. Registries list at least 100 tags on each page.
const (
	maxPages  = 1000
	maxList   = 32 << 20 // bytes
	maxListed = 50_000   // versions, providers or referrers
)

// Limits of an index. A few bytes of JSON can stand for a large structure.
const (
	maxCommas    = 100_000
	maxPlatforms = 200

	maxRecorded = 8 << 20 // bytes of indexes, and of evidence, that are recorded

	maxMoves = 8 // how often a tag is read again because it has moved

	concurrentManifests = 8 // manifests of an index that are read at the same time
)

// A Mirror reads the repositories to which a template maps providers. It is safe for concurrent use.
type Mirror struct {
	client   *fetch.Client
	template Template
	access   Access

	indexes   sources.Memo[string, *index]          // by URL; the packages of a version share them
	blobs     sources.Memo[blobKey, Repository]     // that repositories have, and where a blob was seen first
	newest    sources.Memo[Repository, *index]      // the index of the newest version; without contents if there is none
	evidences sources.Memo[string, *sources.Signed] // by URL of the index that they refer to

	known   sync.Map // of registries whose requests are authenticated
	remotes sync.Map // clients of the library, by repository

	uploads chan struct{} // a place for each large upload
}

// concurrentUploads is how many large blobs are uploaded at the same time.
const concurrentUploads = 8

var _ sources.Source = (*Mirror)(nil)

// New returns the mirror with a template. All mirrors with the same client must have the same access.
func New(client *fetch.Client, template Template, access Access) *Mirror {
	return &Mirror{
		client: client, template: template, access: access, uploads: make(chan struct{}, concurrentUploads),
		indexes:   sources.Memo[string, *index]{Max: maxRecorded, Weigh: (*index).weight},
		evidences: sources.Memo[string, *sources.Signed]{Max: maxRecorded, Weigh: (*sources.Signed).Size},
	}
}

// Template returns the template.
func (m *Mirror) Template() Template { return m.template }

func (m *Mirror) String() string { return "OCI mirror " + m.template.String() }

// Versions lists the versions of p, which are tags of its repository. OpenTofu also lists 1.4.0 if there is the tag
// 01.4.0, and then can't install it. Errors have the type *sources.ProviderError.
func (m *Mirror) Versions(ctx context.Context, p sources.Provider) (sources.Listing, error) {
	r, err := m.repository(p)
	var versions []sources.Version
	if err == nil {
		versions, err = m.versions(ctx, r)
	}
	if err != nil {
		return sources.Listing{}, m.about(p, err)
	}
	return sources.Listing{Versions: versions, From: []string{"OCI mirror " + r.String()}}, nil
}

// Package returns a package with its location and checksum. Errors have the type *sources.PackageError.
func (m *Mirror) Package(ctx context.Context, id sources.PackageID) (sources.Package, error) {
	p, err := m.locate(ctx, id)
	if err != nil {
		return sources.Package{}, &sources.PackageError{ID: id, Source: fetch.Answering(m.String(), err), Err: err}
	}
	return p, nil
}

// A Release is a version in a repository.
type Release struct {
	// Provider is the one that the index states, if the template maps it to the same repository. Otherwise it is the one asked about.
	Provider sources.Provider

	Archives map[sources.Platform]Archive
	Signed   *sources.Signed // nil if there is none
	Warnings []string
}

// An Archive is the archive of a package in a repository.
type Archive struct {
	URL  string
	Hash sources.Hash
	Size int64 // in bytes
}

// Release returns what the mirror has for a version. The error matches [sources.ErrNotFound] if it does not have the
// version.
func (m *Mirror) Release(ctx context.Context, p sources.Provider, v sources.Version) (Release, error) {
	r, err := m.release(ctx, p, v)
	return r, m.aboutVersion(p, v, err)
}

// Detail implements [sources.Detailer]. Registries don't state protocols.
func (m *Mirror) Detail(ctx context.Context, release sources.Release) (detail sources.Detail, err error) {
	r, err := m.repository(release.Provider)
	if err != nil {
		return detail, err
	}
	x, err := m.index(ctx, r, release.Version)
	if err != nil {
		return detail, fetch.Absent(err)
	}
	detail.Platforms = x.platforms()
	return detail, nil
}

// about adds the provider to an error, unless that is nil.
func (m *Mirror) about(p sources.Provider, err error) error {
	if err == nil {
		return nil
	}
	return &sources.ProviderError{Provider: p, Source: fetch.Answering(m.String(), err), Err: err}
}

// aboutVersion adds the provider and the version to an error, unless that is nil.
func (m *Mirror) aboutVersion(p sources.Provider, v sources.Version, err error) error {
	if err == nil {
		return nil
	}
	return m.about(p, fmt.Errorf("version %s: %w", v, err))
}

// repository returns the repository of a provider, and prepares the client for its registry.
func (m *Mirror) repository(p sources.Provider) (Repository, error) {
	r, err := m.template.Repository(p)
	if err != nil {
		return r, fmt.Errorf("repository_template %q: %w", m.template, err)
	}
	m.prepare(r.Registry)
	return r, nil
}

// prepare makes the client authenticate its requests to a registry.
func (m *Mirror) prepare(registry string) {
	once, _ := m.known.LoadOrStore(registry, new(sync.Once)) // so that no request is sent before
	once.(*sync.Once).Do(func() { authorize(m.client, registry, m.access) })
}

func (m *Mirror) locate(ctx context.Context, id sources.PackageID) (sources.Package, error) {
	r, err := m.repository(id.Provider)
	if err != nil {
		return sources.Package{}, err
	}
	x, err := m.index(ctx, r, id.Version)
	if err != nil {
		x, err = m.missing(ctx, r, id.Version, err)
	}
	if err != nil {
		return sources.Package{}, err
	}
	var p sources.Package
	err = m.current(ctx, r, id.Version, x, func(x *index) (err error) {
		p, err = m.locateIn(ctx, r, x, id)
		return err
	})
	return p, err
}

// current calls read with the index of a version. If something is missing that the index refers to, and the tag refers to another
// index by now, it calls read again: some registries remove what no tag leads to.
func (m *Mirror) current(ctx context.Context, r Repository, v sources.Version, x *index, read func(x *index) error) error {
	for range maxMoves {
		err := read(x)
		if !errors.Is(fetch.Absent(err), sources.ErrNotFound) {
			return err
		}
		now, failed := m.reread(ctx, r, v)
		if failed != nil || now.digest == x.digest || now.digest == "" {
			return err
		}
		x = now
	}
	return fmt.Errorf("%s:%s: %w", r, tag(v), ErrMoved)
}

// locateIn returns a package, given the index of its version.
func (m *Mirror) locateIn(ctx context.Context, r Repository, x *index, id sources.PackageID) (sources.Package, error) {
	entry, err := x.entry(id.Platform)
	if err != nil {
		return sources.Package{}, x.wrap(err)
	}
	group, inner := errgroup.WithContext(ctx)
	var archive Archive
	group.Go(func() (err error) {
		archive, err = m.archive(inner, r, entry)
		return err
	})
	signed, warnings, err := m.evidence(ctx, r, x, id.Version)
	if err := errors.Join(group.Wait(), err); err != nil {
		return sources.Package{}, err
	}
	return sources.Package{
		ID:       id,
		Location: sources.Location{URL: archive.URL},
		Filename: id.Filename(),
		Size:     archive.Size,
		Hashes:   []sources.Hash{archive.Hash},
		Signed:   signed,
		Source:   m.String(),
		Kind:     sources.FromOCI,
		Warnings: warnings,
	}, nil
}

func (m *Mirror) release(ctx context.Context, p sources.Provider, v sources.Version) (all Release, err error) {
	r, err := m.repository(p)
	if err != nil {
		return all, err
	}
	x, err := m.index(ctx, r, v)
	if err != nil {
		return all, fetch.Absent(err)
	}
	err = m.current(ctx, r, v, x, func(x *index) (err error) {
		all, err = m.releaseIn(ctx, r, x, v)
		all.Provider = p
		if stated, ok := x.provider(); ok {
			if at, err := m.template.Repository(stated); err == nil && at == r {
				all.Provider = stated
			}
		}
		return err
	})
	return all, err
}

// releaseIn returns what the mirror has for a version, given its index.
func (m *Mirror) releaseIn(ctx context.Context, r Repository, x *index, v sources.Version) (all Release, err error) {
	all.Archives = map[sources.Platform]Archive{}
	platforms := x.platforms()
	if len(platforms) > maxPlatforms {
		return all, x.wrap(tooLong("platforms", maxPlatforms))
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(concurrentManifests)
	var mu sync.Mutex
	for _, platform := range platforms {
		group.Go(func() error {
			entry, err := x.entry(platform)
			if err != nil {
				return x.wrap(err)
			}
			archive, err := m.archive(inner, r, entry)
			mu.Lock()
			defer mu.Unlock()
			all.Archives[platform] = archive
			return err
		})
	}
	all.Signed, all.Warnings, err = m.evidence(ctx, r, x, v)
	return all, errors.Join(group.Wait(), err)
}

// missing returns the error for a version whose tag can't be read. Like OpenTofu, Larder doesn't look further, even if
// another method has listed the version. Registries list a tag a moment before they have it, so it may be there by now.
func (m *Mirror) missing(ctx context.Context, r Repository, v sources.Version, err error) (*index, error) {
	if !errors.Is(fetch.Absent(err), sources.ErrNotFound) {
		return nil, err
	}
	if versions, failed := m.versions(ctx, r); failed != nil || !slices.Contains(versions, v) {
		return nil, sources.WithHint(err, "%s has no version %s: push it there, or exclude the provider from the mirror. "+
			"As with tofu, no other installation method takes its place", r, v)
	}
	if x, again := m.reread(ctx, r, v); again == nil && x.digest != "" {
		return x, nil
	}
	return nil, sources.WithHint(err, "the registry lists the tag %s, but has no manifest for it", tag(v))
}

// versions returns the versions to which tags of a repository refer, sorted. The error matches [sources.ErrNotFound] if
// the registry doesn't have the repository.
func (m *Mirror) versions(ctx context.Context, r Repository) ([]sources.Version, error) {
	tags, err := m.tags(ctx, r, func(name string) bool {
		v, err := versionOf(name)
		return err == nil && tag(v) == name
	})
	versions := make([]sources.Version, len(tags))
	for i, name := range tags {
		versions[i], _ = versionOf(name)
	}
	slices.SortFunc(versions, sources.Version.Compare)
	return slices.Compact(versions), err
}

// tags returns tags of a repository. The error matches [sources.ErrNotFound] if the registry doesn't have the
// repository.
func (m *Mirror) tags(ctx context.Context, r Repository, wanted func(tag string) bool) (all []string, err error) {
	err = m.call(ctx, r.at("tags/list"), blob{}, nil, func(ctx context.Context) error {
		all = nil
		return m.remote(r).Tags(ctx, "", func(page []string) error {
			for _, tag := range page {
				if wanted(tag) {
					all = append(all, strings.Clone(tag)) // without the rest of the page
				}
			}
			if len(all) > maxListed {
				return tooLong("tags", maxListed)
			}
			return nil
		})
	})
	return all, absentRepository(err)
}

// tooLong is the error for more of something than Larder keeps.
func tooLong(what string, most int) error {
	return fmt.Errorf("%w: more than %d %s", fetch.ErrTooLarge, most, what)
}

// absentRepository returns an error that matches [sources.ErrNotFound] if the answer means that there is no repository of that name.
func absentRepository(err error) error {
	status, ok := errors.AsType[*fetch.StatusError](err)
	if !ok {
		return err
	}
	unknown := slices.ContainsFunc(status.Codes, func(code string) bool { return code == "NAME_UNKNOWN" || code == "NAME_INVALID" })
	if unknown || len(status.Codes) == 0 && status.Code == 404 {
		return &fetch.AbsentError{Answer: status, Err: sources.ErrNotFound}
	}
	return err
}

// authorize makes the client authenticate its requests to a registry.
func authorize(client *fetch.Client, registry string, access Access) {
	client.Authorize(Repository{Registry: registry}.root(""), &authorizer{registry: registry, access: access, known: map[string]*granted{}})
}
