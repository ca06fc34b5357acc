package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/larder-cli/larder/sources"
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
	return &v, doc.JSON(&v)
}

// listing is what the document lists, each version once.
func (d *versionsDocument) listing() sources.Listing {
	var l sources.Listing
	for _, warning := range d.Warnings {
		l.Warnings = append(l.Warnings, plain(warning))
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
		l.Warnings = append(l.Warnings, "ignored what is not a version: "+abridge(ignored))
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
		names = append(names, plain(sources.Platform(p).String()))
	}
	slices.Sort(names)
	return names
}

// maxNamed is how many of many things a message names.
const maxNamed = 5

// abridge quotes the first few of many texts.
func abridge(texts []string) string {
	var quoted []string
	for _, text := range texts[:min(len(texts), maxNamed)] {
		quoted = append(quoted, fmt.Sprintf("%.40q", text))
	}
	if more := len(texts) - maxNamed; more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(quoted, ", ")
}

// maxPlain is how much of a server's own words we pass on, in bytes.
const maxPlain = 2000

// plain is text from a server as it may reach a terminal: not too long, and
// without control characters other than line breaks.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxPlain {
		s = strings.ToValidUTF8(s[:maxPlain], "") + " …"
	}
	return s
}
