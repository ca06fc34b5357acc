package report

import (
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A Release is a version of a provider.
type Release struct {
	Typed      `type:"release"`
	Provider   string   `json:"provider"`
	Version    string   `json:"version"`
	Sources    []string `json:"sources"`             // the installation methods that offer it
	Platforms  []string `json:"platforms,omitempty"` // none if unknown
	Protocols  []string `json:"protocols,omitempty"` // none if unknown
	Engines    []string `json:"engines,omitempty"`   // those that support a protocol; none if unknown
	Prerelease bool     `json:"prerelease,omitempty"`
	Allowed    bool     `json:"allowed,omitempty"` // by the constraints of the root module and the policy
	Locked     bool     `json:"locked,omitempty"`
	Installed  bool     `json:"installed,omitempty"`
	Cached     bool     `json:"cached,omitempty"`
	Excluded   string   `json:"excluded,omitempty"` // why the policy excludes it

	Constrained bool `json:"-"` // the root module has constraints
}

// Describe adds what a source says about the version.
func (r *Release) Describe(d sources.Detail) {
	for _, p := range d.Platforms {
		r.Platforms = append(r.Platforms, p.String())
	}
	r.Protocols = append(r.Protocols, d.Protocols...)
	slices.Sort(r.Platforms)
	slices.Sort(r.Protocols)
	r.Platforms, r.Protocols = slices.Compact(r.Platforms), slices.Compact(r.Protocols)
	r.Engines = sources.EnginesFor(r.Protocols)
}

// foreign reports whether the version has no package for this platform.
func (r Release) foreign() bool {
	return len(r.Platforms) > 0 && !slices.Contains(r.Platforms, sources.CurrentPlatform().String())
}

// Cells implements [Row].
func (r Release) Cells(*Output) []cell {
	platforms := ""
	if len(r.Platforms) > 0 {
		platforms = strconv.Itoa(len(r.Platforms))
	}
	var notes []string
	for _, note := range []struct {
		on   bool
		text string
	}{
		{r.Prerelease, "pre-release"}, {r.foreign(), "not for " + sources.CurrentPlatform().String()}, {r.Constrained && r.Allowed, "allowed"}, {r.Excluded != "", "excluded by the policy"},
		{r.Locked, "locked"}, {r.Installed, "installed"}, {r.Cached, "cached"},
	} {
		if note.on {
			notes = append(notes, note.text)
		}
	}
	paint := ui.Plain
	if r.Prerelease || r.foreign() || r.Constrained && !r.Allowed || r.Excluded != "" {
		paint = ui.Faint
	}
	if r.Locked {
		paint = ui.Bold
	}
	return []cell{
		{versionColumn.Column, paint.Of(r.Version)},
		{ui.Column{Head: "SOURCES"}, ui.Plain.Of(strings.Join(r.Sources, ", "))},
		{ui.Column{Head: "PLATFORMS", Right: true}, ui.Plain.Of(platforms)},
		{ui.Column{Head: "PROTOCOLS"}, ui.Plain.Of(strings.Join(r.Protocols, ", "))},
		{ui.Column{Head: "ENGINES FROM"}, ui.Faint.Of(strings.Join(r.Engines, ", "))},
		{ui.Column{Head: "HERE"}, ui.Plain.Of(strings.Join(notes, ", "))},
	}
}

// Releases is the summary of a list of versions.
type Releases struct {
	Versions int `json:"versions"` // that are known
	Shown    int `json:"shown"`
}
