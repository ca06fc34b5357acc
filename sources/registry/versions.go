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
func (r *Registry) versions(
	ctx context.Context, p sources.Provider, use func(*versionsDocument),
) (*fetch.Document, error) {
	return r.get(ctx, p.Host, p.Namespace+"/"+p.Type+"/versions", func(doc *fetch.Document) error {
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

// details returns the platforms and protocols of the listed versions. They are what a registry's operator wrote, so
// texts that are none are skipped.
func (d *versionsDocument) details() map[sources.Version]sources.Detail {
	all := map[sources.Version]sources.Detail{}
	for _, release := range d.Versions {
		v, err := sources.ParseVersion(release.Version)
		if err != nil {
			continue
		}
		var platforms []struct{ OS, Arch string }
		if json.Unmarshal(release.Platforms, &platforms) != nil {
			platforms = nil
		}
		var detail sources.Detail
		for _, listed := range platforms[:min(len(platforms), maxListed)] {
			if p, err := sources.ParsePlatform(sources.Platform(listed).String()); err == nil {
				detail.Platforms = append(detail.Platforms, p)
			}
		}
		slices.SortFunc(detail.Platforms, sources.Platform.Compare)
		for _, protocol := range release.Protocols {
			if _, err := sources.ParseVersion(protocol); err == nil {
				detail.Protocols = append(detail.Protocols, protocol)
			}
		}
		all[v] = detail
	}
	return all
}
