package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A VersionsRequest says which versions to list.
type VersionsRequest struct {
	Arguments []string // a provider's address, and perhaps a root module, as typed
	All       bool     // not only the newest
}

// newestVersions is how many versions are listed without a request for all.
const newestVersions = 20

// mostDetails limits how many versions are queried one by one, for sources that list no platforms.
const mostDetails = 100

// A Release is a version of a provider.
type Release struct {
	report.Typed `type:"release"`
	Provider     string   `json:"provider"`
	Version      string   `json:"version"`
	Sources      []string `json:"sources"`             // the installation methods that offer it
	Platforms    []string `json:"platforms,omitempty"` // none if unknown
	Protocols    []string `json:"protocols,omitempty"` // none if unknown
	Engines      []string `json:"engines,omitempty"`   // those that support a protocol; none if unknown
	Prerelease   bool     `json:"prerelease,omitempty"`
	Allowed      bool     `json:"allowed,omitempty"` // by the constraints of the root module and the policy
	Locked       bool     `json:"locked,omitempty"`
	Installed    bool     `json:"installed,omitempty"`
	Cached       bool     `json:"cached,omitempty"`
	Excluded     string   `json:"excluded,omitempty"` // why the policy excludes it

	of          sources.Release
	constrained bool // the root module has constraints
}

// Releases is the summary of a list of versions.
type Releases struct {
	Versions int `json:"versions"` // that are known
	Shown    int `json:"shown"`
}

// describe adds what a source says about the version.
func (r *Release) describe(d sources.Detail) {
	r.Platforms = sorted(append(r.Platforms, sources.Texts(d.Platforms)...))
	r.Protocols = sorted(append(r.Protocols, d.Protocols...))
	r.Engines = sources.EnginesFor(r.Protocols)
}

// sorted sorts texts, and removes duplicates.
func sorted[T cmp.Ordered](texts []T) []T {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// Cells implements [report.Row].
func (r Release) Cells(*report.Output) []report.Cell {
	platforms, here := "", sources.CurrentPlatform().String()
	if len(r.Platforms) > 0 {
		platforms = strconv.Itoa(len(r.Platforms))
	}
	foreign := platforms != "" && !slices.Contains(r.Platforms, here)
	var notes []string
	for _, note := range []struct {
		on   bool
		text string
	}{
		{r.Prerelease, "pre-release"}, {foreign, "not for " + here}, {r.constrained && r.Allowed, "allowed"},
		{r.Excluded != "", "excluded by the policy"}, {r.Locked, "locked"}, {r.Installed, "installed"}, {r.Cached, "cached"},
	} {
		if note.on {
			notes = append(notes, note.text)
		}
	}
	paint := ui.Plain
	if r.Prerelease || foreign || r.constrained && !r.Allowed || r.Excluded != "" {
		paint = ui.Faint
	}
	if r.Locked {
		paint = ui.Bold
	}
	return []report.Cell{
		report.VersionColumn.Painted(paint, r.Version),
		report.Column{Head: "SOURCES"}.Of(strings.Join(r.Sources, ", ")),
		report.Column{Head: "PLATFORMS", Right: true}.Of(platforms),
		report.Column{Head: "PROTOCOLS"}.Of(strings.Join(r.Protocols, ", ")),
		report.Column{Head: "ENGINES FROM", Paint: ui.Faint}.Of(strings.Join(r.Engines, ", ")),
		report.Column{Head: "HERE"}.Of(strings.Join(notes, ", ")),
	}
}

// Versions lists the versions of a provider that the installation methods offer, and those on this machine.
func Versions(ctx context.Context, s *site.Site, request VersionsRequest) error {
	s.Ask()
	address, dir, err := asked(s, "versions", request.Arguments, true)
	if err != nil {
		return err
	}
	if _, _, versioned := sources.CutVersion(address); versioned {
		err := fmt.Errorf("larder versions takes a provider without a version, not %s", address)
		hint := "larder explain %s shows why the version is chosen or not"
		return report.Usage(sources.WithHint(err, hint, site.ShellQuoted(address)))
	}
	q, done, err := newQuestion(ctx, s, dir, address)
	if err != nil {
		return err
	}
	defer done()
	all := q.releases()
	if len(all) == 0 {
		return errors.Join(append(q.errs, q.notFound(ctx))...)
	}
	sum := Releases{Versions: len(all)}
	if platforms := s.Flags.Platforms; len(platforms) > 0 {
		q.addDetails(ctx, all[:min(len(all), mostDetails)])
		all = slices.DeleteFunc(all, func(r Release) bool {
			lacks := func(p sources.Platform) bool { return !slices.Contains(r.Platforms, p.String()) }
			return slices.ContainsFunc(platforms, lacks)
		})
	}
	shown := all
	if !request.All && !s.Output.JSON {
		shown = all[:min(len(all), newestVersions)]
	}
	q.addDetails(ctx, shown[:min(len(shown), newestVersions)])
	sum.Shown = len(shown)
	report.Grid(s.Output, shown)
	s.Output.Summary(sum)
	q.tellReleases(sum, all)
	if unasked := q.unasked(); len(unasked) > 0 {
		s.Output.Warn("--offline: %s may have other versions", ui.Some(unasked, 5))
	}
	return errors.Join(append(q.errs, ctx.Err())...)
}

// tellReleases sums up what is listed of the versions that were selected.
func (q *question) tellReleases(sum Releases, selected []Release) {
	var parts []string
	if older := len(selected) - sum.Shown; older > 0 {
		parts = append(parts, ui.Count(older, "older version")+" not shown (--all shows them)")
	}
	if len(selected) == 0 {
		parts = append(parts, "no version has packages for "+ui.List("and", sources.Texts(q.Flags.Platforms)))
	}
	if q.required && !q.req.Constraints.Empty() {
		allowed, excluded := 0, 0
		for _, r := range selected {
			if v, err := sources.ParseVersion(r.Version); err != nil || !q.req.Constraints.Allow(v) {
				continue
			}
			if allowed++; !r.Allowed {
				excluded++
			}
		}
		text := fmt.Sprintf("%q allows %d", q.req.Constraints, allowed)
		if excluded > 0 {
			text += fmt.Sprintf(", and the policy excludes %d of them", excluded)
		}
		parts = append(parts, text)
	}
	if rule, ok := q.Policy.SignedBy(q.req.Provider); ok {
		const text = "signatures not verified, which %s at %s requires"
		parts = append(parts, fmt.Sprintf(text, rule.Setting, q.Shown(rule.Place())))
	}
	if len(parts) > 0 {
		q.Output.Say("%s", strings.Join(parts, "; "))
	}
}

// unasked returns the methods that --offline kept from answering.
func (q *question) unasked() (methods []string) {
	for _, a := range q.answers {
		if errors.Is(a.of.Err, sources.ErrOffline) {
			methods = append(methods, a.Method)
		}
	}
	return methods
}

// notFound returns the error for a provider that no source has.
func (q *question) notFound(ctx context.Context) error {
	if len(q.errs) > 0 { // then it may exist
		return nil
	}
	_, err := sources.NewMulti(q.methods).Versions(ctx, q.req.Provider)
	if err == nil {
		return nil
	}
	return q.Root.Explain(err)
}

// releases returns all known versions, the newest first.
func (q *question) releases() (all []Release) {
	constrained := q.required && !q.req.Constraints.Empty()
	for _, c := range q.candidates() {
		v := c.Version
		r := Release{
			Provider: q.req.Provider.String(), Version: v.String(), Sources: []string{}, Prerelease: v.Prerelease(),
			Allowed: q.required && q.req.Constraints.Allow(v) && c.Excluded == nil, Locked: v == q.locked,
			Installed: slices.Contains(q.installed, v), Cached: slices.Contains(q.cached, v),
			of: sources.Release{Provider: q.req.Provider, Version: v}, constrained: constrained,
		}
		if c.Excluded != nil {
			r.Excluded = c.Excluded.Error()
		}
		for _, a := range q.answers {
			if a.offers(v) {
				r.Sources = append(r.Sources, a.Method)
				r.describe(a.of.Listing.Details[v])
			}
		}
		all = append(all, r)
	}
	return all
}

// addDetails queries the first source of each version for its platforms, if the lists have none.
func (q *question) addDetails(ctx context.Context, all []Release) {
	detailer, _ := sources.NewMulti(q.methods).(sources.Detailer) // which it is
	site.ForEach(len(all), 8, func(i int) {
		if r := &all[i]; len(r.Platforms) == 0 && len(r.Sources) > 0 {
			detail, _ := detailer.Detail(ctx, r.of) // without it, the columns are empty
			r.describe(detail)
		}
	})
}
