package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A versionsDocument is a registry's list of versions. Members that engines do
// not read may have any type, so they are not decoded.
type versionsDocument struct {
	Versions []release
	Warnings []string

	doc *fetch.Document
}

type release struct {
	Version   string
	Protocols []string
	Platforms json.RawMessage
}

// versions fetches the list of p's versions. Use must keep little of it, because a document may be large.
func (r *Registry) versions(ctx context.Context, p sources.Provider, use func(*versionsDocument)) (*fetch.Document, error) {
	return r.get(ctx, p.Host, p.Namespace+"/"+p.Type+"/versions", maxVersions, func(doc *fetch.Document) error {
		v, err := parseVersions(doc)
		if err == nil {
			use(v)
		}
		return err
	})
}

func parseVersions(doc *fetch.Document) (*versionsDocument, error) {
	v := versionsDocument{doc: doc}
	if err := doc.JSON(&v); err != nil {
		return nil, err
	}
	if len(v.Versions) > maxReleases {
		return nil, fmt.Errorf("list of versions is %w: %d, of at most %d", fetch.ErrTooLarge, len(v.Versions), maxReleases)
	}
	v.Warnings = slices.Clone(v.Warnings[:min(len(v.Warnings), maxWarnings)]) // the rest is not kept
	for i := range v.Versions {
		release := &v.Versions[i]
		release.Protocols = slices.Clone(release.Protocols[:min(len(release.Protocols), maxListed)])
	}
	return &v, nil
}

// listing returns the listed versions, with the registry's warnings.
func (d *versionsDocument) listing() sources.Listing {
	var versions, warnings []string
	for _, release := range d.Versions {
		versions = append(versions, release.Version)
	}
	for _, warning := range d.Warnings {
		warnings = append(warnings, fetch.Printable(warning))
	}
	l := sources.ListVersions("registry", versions, d.doc.Said)
	l.Warnings = append(warnings, l.Warnings...)
	return l
}

// release returns the entry for a version, and false if it is not listed.
func (d *versionsDocument) release(want sources.Version) (release, bool) {
	for _, release := range d.Versions {
		if v, err := sources.ParseVersion(release.Version); err == nil && v == want {
			return release, true
		}
	}
	return release{}, false
}

// platforms returns the platforms with a package in the registry, sorted.
func (r release) platforms() []string {
	var listed []struct{ OS, Arch string }
	if json.Unmarshal(r.Platforms, &listed) != nil {
		return nil // only a hint depends on it
	}
	var names []string
	for _, p := range listed[:min(len(listed), maxListed)] {
		names = append(names, sources.Platform(p).String())
	}
	slices.Sort(names)
	return names
}

// details returns the platforms and protocols of the listed versions. They are what a registry's operator wrote, so
// texts that are none are skipped.
func (d *versionsDocument) details() map[sources.Version]sources.Detail {
	all := map[sources.Version]sources.Detail{}
	for _, release := range d.Versions {
		v, err := sources.ParseVersion(release.Version)
		if err != nil {
			continue
		}
		var detail sources.Detail
		for _, name := range release.platforms() {
			if p, err := sources.ParsePlatform(name); err == nil {
				detail.Platforms = append(detail.Platforms, p)
			}
		}
		for _, protocol := range release.Protocols {
			if _, err := sources.ParseVersion(protocol); err == nil {
				detail.Protocols = append(detail.Protocols, protocol)
			}
		}
		all[v] = detail
	}
	return all
}
