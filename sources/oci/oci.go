// Package oci reads and writes providers in OCI registries, in the form that OpenTofu installs with its method
// oci_mirror.
//
// A template maps each provider to a repository. A tag for each version refers to an index, which refers to a manifest
// for each platform, which refers to the archive. Evidence is a referrer of the index, as Larder pushes it. The digest
// of an archive is its checksum, so Larder has it before the download. The package downloads no archives and writes no
// files.
//
// The format is documented at https://opentofu.org/docs/cli/oci_registries/provider-mirror/.
package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// maxRecorded is how many bytes of indexes, and of evidence, are recorded.
const maxRecorded = 8 << 20

// A Mirror reads and writes the repositories to which a template maps providers. It is safe for concurrent use.
type Mirror struct {
	Template Template
	client   *fetch.Client
	access   Access

	indexes   sources.Memo[string, *index]          // by URL; the packages of a version share them
	newest    sources.Memo[Repository, *index]      // the index of the newest version; without contents if there is none
	evidences sources.Memo[string, *sources.Signed] // by URL of the index that they refer to

	mu      sync.Mutex
	remotes map[Repository]*remote.Repository
}

// New returns the mirror with a template. All mirrors with the same client must have the same access.
func New(client *fetch.Client, template Template, access Access) *Mirror {
	return &Mirror{
		client: client, Template: template, access: access, remotes: map[Repository]*remote.Repository{},
		indexes:   sources.Memo[string, *index]{Max: maxRecorded, Weigh: (*index).weight},
		evidences: sources.Memo[string, *sources.Signed]{Max: maxRecorded, Weigh: (*sources.Signed).Size},
	}
}

func (m *Mirror) String() string { return "OCI mirror " + m.Template.String() }

// Versions lists the versions of p, which are tags of its repository. OpenTofu also lists 1.4.0 if there is the tag
// 01.4.0, and then can't install it. Errors have the type *sources.ProviderError.
func (m *Mirror) Versions(ctx context.Context, p sources.Provider) (listing sources.Listing, err error) {
	r, err := m.repository(p)
	if err == nil {
		listing.From = []string{"OCI mirror " + r.String()}
		listing.Versions, err = m.versions(ctx, r)
	}
	return listing, m.about(p, err)
}

// Package returns a package with its location and checksum. Errors have the type *sources.PackageError.
func (m *Mirror) Package(ctx context.Context, id sources.PackageID) (p sources.Package, err error) {
	defer func() {
		if err != nil {
			err = &sources.PackageError{ID: id, Source: fetch.Answering(m.String(), err), Err: err}
		}
	}()
	r, x, err := m.version(ctx, id.Provider, id.Version)
	if isAbsent(err) { // like OpenTofu, Larder doesn't look further, even if another method has listed the version
		err = sources.WithHint(err, "%s has no version %s: push it there, or exclude the provider from the mirror. "+
			"As with tofu, no other installation method takes its place", r, id.Version)
	}
	if err != nil {
		return p, err
	}
	entry, err := x.entry(id.Platform)
	if err != nil {
		return p, err
	}
	var group errgroup.Group
	group.Go(func() error {
		p.Signed, p.Warnings = m.evidence(ctx, r, x, id.Version)
		return nil
	})
	archive, err := m.archive(ctx, r, entry)
	_ = group.Wait()
	p.ID, p.Filename, p.Source, p.Kind = id, id.Filename(), m.String(), sources.FromOCI
	p.Location.URL, p.Size, p.Hashes = archive.URL, archive.Size, archive.Hashes
	return p, cmp.Or(err, ctx.Err())
}

// Release returns what the mirror has for a version, with the provider that the index states, if the template maps it
// to the same repository. The error matches [sources.ErrNotFound] if it does not have the version.
func (m *Mirror) Release(ctx context.Context, p sources.Provider, v sources.Version) (all sources.Holding, err error) {
	defer func() { err = m.aboutVersion(p, v, err) }()
	all.Provider = p
	r, x, err := m.version(ctx, p, v)
	if err != nil {
		return all, fetch.Absent(err)
	}
	if stated, ok := x.provider(); ok {
		if at, err := m.Template.Repository(stated); err == nil && at == r {
			all.Provider = stated
		}
	}
	if all.Archives, err = m.archives(ctx, r, x, nil); err == nil {
		all.Signed, all.Warnings = m.evidence(ctx, r, x, v)
	}
	return all, cmp.Or(err, ctx.Err())
}

// Detail implements [sources.Detailer]. Registries don't state protocols.
func (m *Mirror) Detail(ctx context.Context, release sources.Release) (detail sources.Detail, err error) {
	_, x, err := m.version(ctx, release.Provider, release.Version)
	if err == nil {
		detail.Platforms = x.platforms()
	}
	return detail, fetch.Absent(err)
}

// ErrUnlisted matches the error for providers that can't be listed: the registry has no catalog, or doesn't show it to
// this user, or the template can't be reversed.
var ErrUnlisted = errors.New("the providers can't be listed")

// Providers returns the providers in the repositories of a registry that the template can lead to, sorted. If the
// template doesn't contain the host of providers, it is the given one.
func (m *Mirror) Providers(ctx context.Context, host sources.Host) (all []sources.Provider, err error) {
	registry := m.Template.Registry()
	pattern, err := m.Template.reversed()
	if err == nil {
		m.authorize(Repository{Registry: registry}, "_catalog")
		catalog := remote.Registry{RepositoryOptions: remote.RepositoryOptions{
			Client: wire{m.client}, Reference: orasregistry.Reference{Registry: registry}, MaxMetadataBytes: maxManifest,
		}}
		at := Repository{Registry: registry}.root("_catalog")
		all, err = list(ctx, m, at, "providers", catalog.Repositories, func(name string) (sources.Provider, bool) {
			return m.providerOf(pattern, Repository{registry, name}, host)
		})
	}
	if status, answered := errors.AsType[*fetch.StatusError](err); pattern == nil || answered && !status.Temporary() {
		err = sources.WithHint(fmt.Errorf("%w: %w", ErrUnlisted, err), "name the providers, such as hashicorp/aws")
	}
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all), err
}

// providerOf returns the provider that the template maps to a repository.
func (m *Mirror) providerOf(pattern *regexp.Regexp, r Repository, host sources.Host) (p sources.Provider, ok bool) {
	match := pattern.FindStringSubmatch(r.String())
	if match == nil {
		return p, false
	}
	var err error
	if i := pattern.SubexpIndex("hostname"); i >= 0 {
		host, err = sources.ParsePunycodeHost(match[i])
	}
	if err == nil {
		namespace, kind := match[pattern.SubexpIndex("namespace")], match[pattern.SubexpIndex("type")]
		p, err = sources.ParseProvider(string(host)+"/"+namespace+"/"+kind, sources.Terraform)
	}
	if err != nil {
		return p, false
	}
	back, err := m.Template.Repository(p)
	return p, err == nil && back == r
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

// isAbsent reports whether a registry answered that something doesn't exist.
func isAbsent(err error) bool { return errors.Is(fetch.Absent(err), sources.ErrNotFound) }

// repository returns the repository of a provider, whose requests are authenticated from then on.
func (m *Mirror) repository(p sources.Provider) (Repository, error) {
	r, err := m.Template.Repository(p)
	if err != nil {
		return r, fmt.Errorf("repository_template %q: %w", m.Template, err)
	}
	m.remote(r)
	return r, nil
}

// version returns the repository of a provider, and the index of a version there as it was read last.
func (m *Mirror) version(
	ctx context.Context, p sources.Provider, v sources.Version,
) (r Repository, x *index, err error) {
	if r, err = m.repository(p); err != nil {
		return r, nil, err
	}
	x, err = m.indexes.Get(ctx, r.at("manifests/"+tag(v)), func() (x *index, err error) {
		err = m.document(ctx, r, tag(v), func(doc *fetch.Document) (err error) {
			x, err = parseIndex(doc)
			return err
		})
		return x, err
	})
	return r, x, err
}

// archives returns the archives to which an index refers. The manifests of known ones aren't read.
func (m *Mirror) archives(
	ctx context.Context, r Repository, x *index, known map[digest.Digest]sources.HeldArchive,
) (map[sources.Platform]sources.HeldArchive, error) {
	all := map[sources.Platform]sources.HeldArchive{}
	for platform := range x.packages {
		entry, err := x.entry(platform)
		archive, ok := known[entry.Digest]
		if err == nil && !ok {
			archive, err = m.archive(ctx, r, entry)
		}
		switch {
		case err == nil:
			all[platform] = archive
		case known == nil || !isAbsent(err): // otherwise the registry has lost it, so it can be stored again
			return nil, err
		}
	}
	return all, nil
}

// versions returns the versions to which tags of a repository refer, sorted. The error matches [sources.ErrNotFound] if
// the registry doesn't have the repository.
func (m *Mirror) versions(ctx context.Context, r Repository) ([]sources.Version, error) {
	all, err := list(ctx, m, r.at("tags/list"), "tags", m.remote(r).Tags, func(name string) (sources.Version, bool) {
		v, err := versionOf(name)
		return v, err == nil && tag(v) == name
	})
	status, ok := errors.AsType[*fetch.StatusError](err)
	unknown := func(code string) bool { return code == "NAME_UNKNOWN" || code == "NAME_INVALID" }
	if ok && (slices.ContainsFunc(status.Codes, unknown) || len(status.Codes) == 0 && status.Code == 404) {
		err = &fetch.AbsentError{Answer: status, Err: sources.ErrNotFound}
	}
	slices.SortFunc(all, sources.Version.Compare)
	return slices.Compact(all), err
}
