package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// A Standing is how the locked version of a provider compares with the others. It is the same for many root
// modules.
type Standing struct {
	Provider string        `json:"provider"`
	Locked   string        `json:"locked,omitempty"`  // empty if no version is locked
	Allowed  string        `json:"allowed,omitempty"` // the newest version that the constraints allow; empty if they allow none
	Newest   string        `json:"newest,omitempty"`  // the newest release, or pre-release if there are only these
	Refused  bool          `json:"refused,omitempty"` // the constraint or the policy refuses the locked version
	Bar      installer.Bar `json:"excluded_by,omitempty"`

	// The constraint that excludes the newest version, and what it would have to be. Together, constraints may
	// exclude a version that each of them allows.
	Constraint string `json:"constraint,omitempty"`
	Instead    string `json:"instead,omitempty"`
}

// A Rank is how much there is to do about a standing.
type Rank int

// The ranks, in order.
const (
	UpToDate Rank = iota
	Unknown       // nothing newer is known, and not all sources were queried
	NotLocked
	HeldBack   // there is a newer version, and something excludes it
	Upgradable // the constraints allow a newer version
)

// An Outdated is a provider with a locked version in some root modules.
type Outdated struct {
	Typed `type:"outdated"`
	Standing
	Rank        Rank     `json:"-"`
	Places      []Place  `json:"places,omitempty"`       // of the constraint
	RootModules []string `json:"root_modules,omitempty"` // empty if there is only one
}

// Add adds a root module, which has a name if there are several, and the place of its constraint, if there is one.
func (d *Outdated) Add(root string, from sources.Origin) {
	if root != "" {
		d.RootModules = append(d.RootModules, root)
	}
	if at := (Place{from.File, from.Line}); at.File != "" && !slices.Contains(d.Places, at) {
		d.Places = append(d.Places, at)
	}
}

// why describes what excludes the newest version: a constraint with its place, or another rule.
func (d Outdated) why() string {
	text := map[installer.Bar]string{
		installer.Excluded: "the policy", installer.LockedOut: "the lock file", installer.Prereleased: "the rule for pre-releases",
	}[d.Bar]
	if d.Constraint != "" {
		text = strconv.Quote(d.Constraint)
	}
	if len(d.Places) > 0 {
		text += " at " + d.Places[0].String()
	}
	if more := len(d.Places) - 1; more > 0 {
		text += " and " + ui.Count(more, "other place")
	}
	return text
}

// Cells implements [Row].
func (d Outdated) Cells(o *Output) []cell {
	locked, paint, roots, instead := cmp.Or(d.Locked, "not locked"), ui.Plain, "", ""
	if d.Refused {
		locked += " (not allowed)"
	}
	if d.Rank == Upgradable {
		paint = ui.Added
	}
	switch n := len(d.RootModules); {
	case n > 1 && o.Level < Verbose:
		roots = "in " + ui.Count(n, "root module")
	case n > 0:
		roots = "in " + strings.Join(d.RootModules, ", ")
	}
	if o.Level == Verbose && d.Instead != "" {
		instead = strconv.Quote(d.Instead)
	}
	return []cell{
		providerColumn.of(d.Provider),
		{ui.Column{Head: "LOCKED"}, ui.Plain.Of(locked)},
		{ui.Column{}, ui.Plain.Of(roots)},
		{ui.Column{Head: "ALLOWED"}, paint.Of(cmp.Or(d.Allowed, "none"))},
		{ui.Column{Head: "NEWEST"}, ui.Plain.Of(d.Newest)},
		{ui.Column{Head: "HELD BACK BY"}, ui.Plain.Of(o.ShortenHere(d.why()))},
		{ui.Column{Head: "TO ALLOW IT"}, ui.Plain.Of(instead)},
	}
}

// mostOutdated is how many rows are listed without --verbose.
const mostOutdated = 20

// Outdated shows providers with the versions that could be chosen, those that can be upgraded first.
func (o *Output) Outdated(all []Outdated) {
	slices.SortFunc(all, func(a, b Outdated) int {
		return cmp.Or(
			cmp.Compare(b.Rank, a.Rank), strings.Compare(a.Provider, b.Provider), len(b.RootModules)-len(a.RootModules),
			strings.Compare(a.Locked, b.Locked), strings.Compare(a.Constraint, b.Constraint), slices.Compare(a.RootModules, b.RootModules),
		)
	})
	tellAll(o, all)
	if o.JSON {
		return
	}
	shown := len(all)
	if o.Level != Verbose {
		shown = min(shown, mostOutdated)
	}
	Table(o, all[:shown])
	if more := len(all) - shown; more > 0 {
		o.Sentence("and %s (--verbose lists them)", ui.Count(more, "other row"))
	}
}

// An OutdatedSum is the summary of outdated.
type OutdatedSum struct {
	RootModules int      `json:"root_modules"`
	FailedRoots int      `json:"root_modules_failed,omitempty"`
	Providers   int      `json:"providers"`              // different ones
	Upgradable  int      `json:"upgradable"`             // a root module allows a newer version
	HeldBack    int      `json:"held_back"`              // others with a newer version
	NotLocked   int      `json:"not_locked"`             // others that a root module doesn't lock
	UpToDate    int      `json:"up_to_date"`             // all others
	Unknown     int      `json:"undetermined,omitempty"` // with --offline, those without a known newer version
	NotQueried  []string `json:"not_queried,omitempty"`  // sources that may have newer versions; with --offline

	Several bool `json:"-"` // there can be more than one root module
}

// Add counts a provider by its greatest rank.
func (t *OutdatedSum) Add(r Rank) {
	t.Providers++
	*[]*int{&t.UpToDate, &t.Unknown, &t.NotLocked, &t.HeldBack, &t.Upgradable}[r]++
}

// Text sums up: "5 providers in 3 root modules: 1 upgradable, 4 up to date".
func (t OutdatedSum) Text() string {
	text := ui.Count(t.Providers, "provider")
	if t.Several {
		text += " in " + ui.Count(t.RootModules, "root module")
	}
	if t.UpToDate < t.Providers {
		text += ": " + strings.Join(ui.Numbers(ui.N(t.Upgradable, "upgradable"), ui.N(t.HeldBack, "held back"),
			ui.N(t.NotLocked, "not locked"), ui.N(t.UpToDate, "up to date"), ui.N(t.Unknown, "unknown")), ", ")
	} else if t.Providers > 0 {
		text += " up to date"
	}
	if t.FailedRoots > 0 {
		text += "; " + ui.Count(t.FailedRoots, "root module") + " failed"
	}
	return text
}
