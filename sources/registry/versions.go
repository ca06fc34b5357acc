package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A versionsDocument is the answer to which versions there are. Members that
// engines do not read stay raw, as they may be anything.
type versionsDocument struct {
	Versions []release
	Warnings []string
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
	if said := fetch.Said(doc.Body); len(v.Versions) == 0 && said != "" {
		v.Warnings = append(v.Warnings, fmt.Sprintf("the registry lists no versions, but returned the message %q", said))
	}
	if len(v.Versions) > maxReleases {
		return nil, fmt.Errorf("list of versions is %w: %d, of at most %d", fetch.ErrTooLarge, len(v.Versions), maxReleases)
	}
	return &v, nil
}

// listing is what the document lists, each version once.
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
		warning := "ignored invalid versions: " + fetch.QuoteSome(ignored)
		if _, err := sources.ParseVersion(strings.TrimPrefix(ignored[0], "v")); err == nil {
			warning += ` (versions are listed without "v")`
		}
		l.Warnings = append(l.Warnings, warning)
	}
	return l
}

// release is the entry for a version, and false if it is not listed.
func (d *versionsDocument) release(want sources.Version) (release, bool) {
	for _, release := range d.Versions {
		if v, err := sources.ParseVersion(release.Version); err == nil && v == want {
			return release, true
		}
	}
	return release{}, false
}

// platforms are those for which the registry lists a package, sorted.
func (r release) platforms() []string {
	var listed []struct{ OS, Arch string }
	if json.Unmarshal(r.Platforms, &listed) != nil {
		return nil // no more than a hint depends on it
	}
	var names []string
	for _, p := range listed {
		names = append(names, sources.Platform(p).String())
	}
	slices.Sort(names)
	return names
}
