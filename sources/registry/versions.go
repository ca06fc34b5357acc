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

	url string // that it came from
}

type release struct {
	Version   string
	Protocols []string
	Platforms json.RawMessage
}

func (r *Registry) versions(ctx context.Context, p sources.Provider) (*versionsDocument, error) {
	doc, err := r.get(ctx, p.Host, p.Namespace+"/"+p.Type+"/versions", maxVersions)
	if err != nil {
		return nil, err
	}
	var v versionsDocument
	if err := doc.JSON(&v); err != nil {
		return nil, err
	}
	v.url = fetch.Redact(doc.URL.String())
	if said := doc.Said(); len(v.Versions) == 0 && said != "" {
		v.Warnings = append(v.Warnings, fmt.Sprintf("the registry lists no versions, but returned the message %q", said))
	}
	if len(v.Versions) > maxReleases {
		return nil, fmt.Errorf("list of versions is %w: %d, of at most %d", fetch.ErrTooLarge, len(v.Versions), maxReleases)
	}
	return &v, nil
}

// listing returns the listed versions without duplicates.
func (d *versionsDocument) listing() sources.Listing {
	var l sources.Listing
	for _, warning := range d.Warnings[:min(len(d.Warnings), maxWarnings)] {
		l.Warnings = append(l.Warnings, fetch.Printable(warning))
	}
	var ignored []string
	for _, release := range d.Versions {
		v, err := sources.ParseVersion(release.Version)
		if err != nil {
			ignored = append(ignored, release.Version)
			continue
		}
		l.Versions = append(l.Versions, v)
	}
	slices.SortFunc(l.Versions, sources.Version.Compare)
	l.Versions = slices.Compact(l.Versions)
	if len(ignored) > 0 {
		l.Warnings = append(l.Warnings, fetch.Ignored(ignored))
	}
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
	for _, p := range listed {
		names = append(names, sources.Platform(p).String())
	}
	slices.Sort(names)
	return names
}
