package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

	root string // the only root module that it is about; empty if it is about all
}

// In returns the standing for a single root module.
func (s Standing) In(root string) Standing {
	s.root = root
	return s
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
	Rank        Rank      `json:"-"`
	Signed      time.Time `json:"signed,omitzero"`        // when the publisher signed the locked version; zero if unknown
	Places      []Place   `json:"places,omitempty"`       // of the constraint
	RootModules []string  `json:"root_modules,omitempty"` // empty if there is only one

	at map[Place]bool // that are in Places
}

// Add adds a root module, which has a name if there are several, and the place of its constraint, if there is one.
func (d *Outdated) Add(root string, from sources.Origin) {
	if root != "" {
		d.RootModules = append(d.RootModules, root)
	}
	at := Place{from.File, from.Line}
	if at.File == "" || d.at[at] {
		return
	}
	if d.at == nil {
		d.at = map[Place]bool{}
	}
	d.Places, d.at[at] = append(d.Places, at), true
}

// locked returns the locked version, and what is wrong with it.
func (d Outdated) locked() string {
	switch {
	case d.Locked == "":
		return "not locked"
	case d.Refused:
		return d.Locked + " (not allowed)"
	}
	return d.Locked
}

// age returns how old the locked version is, or "" if that is unknown.
func (d Outdated) age() string {
	if d.Signed.IsZero() {
		return ""
	}
	return ui.Age(d.Signed, time.Now())
}

// why describes what excludes the newest version: a constraint with its place, or another rule.
func (d Outdated) why() string {
	text := ""
	switch {
	case d.Constraint != "":
		text = fmt.Sprintf("%q", d.Constraint)
	case d.Bar == installer.Excluded:
		text = "the policy"
	case d.Bar == installer.LockedOut:
		text = "the lock file"
	case d.Bar == installer.Prereleased:
		text = "the rule for pre-releases"
	}
	if len(d.Places) > 0 {
		text += " at " + d.Places[0].String()
	}
	if more := len(d.Places) - 1; more > 0 {
		text += " and " + ui.Count(more, "other place")
	}
	return text
}

// An outdatedGroup is a row: a provider in several root modules, which may differ, those with the most root modules
// first. With --verbose, and if there is only one root module, each of them is a row, as programs get them.
type outdatedGroup []Outdated

// Cells implements [celled].
func (g outdatedGroup) Cells(o *Output) []cell {
	locked, roots := g.locked(), ""
	if o.Level == Verbose || len(g[0].RootModules) == 0 {
		locked, roots = g[0].locked(), strings.Join(g[0].RootModules, ", ")
	}
	first, paint, instead := g[0], ui.Plain, ""
	var allowed []string
	age := first.age()
	for _, d := range g {
		allowed = append(allowed, cmp.Or(d.Allowed, "none"))
		if d.Rank == Upgradable {
			paint = ui.Added
		}
		if d.locked() != first.locked() {
			age = ""
		}
	}
	if o.Level == Verbose && first.Instead != "" {
		instead = strconv.Quote(first.Instead)
	}
	return []cell{
		providerColumn.of(first.Provider),
		{ui.Column{Head: "LOCKED"}, ui.Plain.Of(locked)},
		{ui.Column{Head: "ROOT MODULE"}, ui.Plain.Of(roots)},
		{ui.Column{Head: "ALLOWED"}, paint.Of(ui.Some(unique(allowed), 2))},
		{ui.Column{Head: "NEWEST"}, ui.Plain.Of(first.Newest)},
		{ui.Column{Head: "AGE"}, ui.Faint.Of(age)},
		{ui.Column{Head: "HELD BACK BY"}, ui.Plain.Of(o.ShortenHere(g.why()))},
		{ui.Column{Head: "TO ALLOW IT"}, ui.Plain.Of(instead)},
	}
}

// why is that of the first root modules, with all places of their constraint.
func (g outdatedGroup) why() string {
	first := g[0]
	first.Places = nil
	others := map[string]bool{}
	for _, d := range g {
		if d.Constraint == first.Constraint {
			first.Places = append(first.Places, d.Places...)
		} else if d.Constraint != "" {
			others[d.Constraint] = true
		}
	}
	first.Places = unique(first.Places)
	text := first.why()
	if len(others) > 0 {
		text += "; " + ui.Count(len(others), "other constraint")
	}
	return text
}

// locked lists the locked versions: "5.60.0 in 12 root modules, 5.58.0 in 3".
func (g outdatedGroup) locked() string {
	roots := map[string][]string{}
	for _, d := range g {
		roots[d.locked()] = append(roots[d.locked()], d.RootModules...)
	}
	order := grouped(g, Outdated.locked)
	slices.SortStableFunc(order, func(a, b outdatedGroup) int {
		return len(roots[b[0].locked()]) - len(roots[a[0].locked()])
	})
	texts := make([]string, len(order))
	for i, of := range order {
		version := of[0].locked()
		in := roots[version]
		switch {
		case i > 0:
			texts[i] = fmt.Sprintf("%s in %d", version, len(in))
		case len(order)+len(in) == 2:
			texts[i] = version + " in " + in[0]
		default:
			texts[i] = version + " in " + ui.Count(len(in), "root module")
		}
	}
	return sources.JoinSome(texts, 3, ", ", " and %d other versions")
}

// mostOutdated is how many providers are listed without --verbose.
const mostOutdated = 20

// Outdated shows providers with the versions that could be chosen. Without --verbose, people see one row for each
// provider.
func (o *Output) Outdated(all []Outdated) {
	slices.SortFunc(all, compareOutdated)
	tellAll(o, all)
	if o.JSON {
		return
	}
	groups := slices.Collect(slices.Chunk(outdatedGroup(all), 1))
	shown := len(groups)
	if o.Level != Verbose { // those that can be upgraded first
		groups = grouped(outdatedGroup(all), func(d Outdated) string { return d.Provider })
		slices.SortStableFunc(groups, func(a, b outdatedGroup) int { return cmp.Compare(b.rank(), a.rank()) })
		shown = min(len(groups), mostOutdated)
	}
	table(o, groups[:shown])
	if more := len(groups) - shown; more > 0 {
		o.Sentence("and %s (--verbose lists them)", ui.Count(more, "other provider"))
	}
}

// compareOutdated orders by provider and root module. Of several root modules together, most come first.
func compareOutdated(a, b Outdated) int {
	return cmp.Or(
		strings.Compare(a.Provider, b.Provider), strings.Compare(a.root, b.root), len(b.RootModules)-len(a.RootModules),
		strings.Compare(a.Locked, b.Locked), strings.Compare(a.Constraint, b.Constraint), slices.Compare(a.RootModules, b.RootModules),
	)
}

// rank returns the greatest rank of the group.
func (g outdatedGroup) rank() Rank {
	return slices.MaxFunc(g, func(a, b Outdated) int { return cmp.Compare(a.Rank, b.Rank) }).Rank
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
