package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
	SignedAt    time.Time `json:"-"`                      // zero if unknown
	Signed      string    `json:"signed,omitempty"`       // when the publisher signed the locked version
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

// Cells implements [Row].
func (d Outdated) Cells(o *Output) []ui.Span {
	allowed := ui.Plain.Of(cmp.Or(d.Allowed, "none"))
	if d.Rank == Upgradable {
		allowed.Paint = ui.Added
	}
	instead := ""
	if o.Level == Verbose && d.Instead != "" {
		instead = fmt.Sprintf("%q", d.Instead)
	}
	return []ui.Span{
		ui.Bold.Of(d.Provider), {Text: d.locked()}, {Text: strings.Join(d.RootModules, ", ")}, allowed, {Text: d.Newest}, ui.Faint.Of(d.age()),
		{Text: o.ShortenHere(d.why())}, {Text: instead},
	}
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
	if d.SignedAt.IsZero() {
		return ""
	}
	return ui.Age(d.SignedAt, time.Now())
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

// An outdatedGroup is a provider in several root modules, which may differ: those with the most root modules are
// first. Programs get the single ones.
type outdatedGroup []Outdated

// Cells implements [celled].
func (g outdatedGroup) Cells(o *Output) []ui.Span {
	cells := g[0].Cells(o)
	allowed := []string{cells[3].Text}
	for _, d := range g[1:] {
		allowed = append(allowed, cmp.Or(d.Allowed, "none"))
		if d.Rank == Upgradable {
			cells[3].Paint = ui.Added
		}
		if d.locked() != g[0].locked() {
			cells[5].Text = ""
		}
	}
	cells[1].Text, cells[2].Text, cells[3].Text = g.locked(), "", ui.Some(unique(allowed), 2)
	cells[6].Text = o.ShortenHere(g.why())
	return cells
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
	roots, order := map[string][]string{}, []string(nil)
	for _, d := range g {
		if roots[d.locked()] == nil {
			order = append(order, d.locked())
		}
		roots[d.locked()] = append(roots[d.locked()], d.RootModules...)
	}
	slices.SortStableFunc(order, func(a, b string) int { return len(roots[b]) - len(roots[a]) })
	if len(order) == 1 && len(roots[order[0]]) == 1 {
		return order[0] + " in " + roots[order[0]][0]
	}
	texts := make([]string, len(order))
	for i, version := range order {
		texts[i] = fmt.Sprintf("%s in %d", version, len(roots[version]))
	}
	texts[0] = order[0] + " in " + ui.Count(len(roots[order[0]]), "root module")
	return sources.JoinSome(texts, 3, ", ", " and %d other versions")
}

// outdatedColumns are the columns of outdated providers.
func outdatedColumns() []ui.Column {
	return []ui.Column{
		{Head: "PROVIDER", Shorten: true}, {Head: "LOCKED"}, {Head: "ROOT MODULE", Shorten: true}, {Head: "ALLOWED"}, {Head: "NEWEST"},
		{Head: "AGE", Name: "age of the locked version", Drop: 1}, {Head: "HELD BACK BY"}, {Head: "TO ALLOW IT"},
	}
}

// reasonColumn is the index of the column that says what holds a version back.
const reasonColumn = 6

// A belowRow is a row whose reason is below it, because the table is too wide with it.
type belowRow struct{ celled }

// Cells implements [celled].
func (r belowRow) Cells(o *Output) []ui.Span {
	cells := r.celled.Cells(o)
	return cells[:reasonColumn]
}

// A reasonLine is the reason below a row.
type reasonLine struct{ celled }

// Cells implements [celled].
func (r reasonLine) Cells(o *Output) []ui.Span {
	cells := r.celled.Cells(o)[reasonColumn:]
	if cells[0].Text == "" {
		return nil
	}
	text := "  held back by " + cells[0].Text
	if cells[1].Text != "" {
		text += "; to allow it: " + cells[1].Text
	}
	return []ui.Span{ui.Faint.Of(text)}
}

// outdatedTable shows rows. If a terminal is too narrow for the reasons, they are below the rows.
func (o *Output) outdatedTable(rows []celled) {
	if o.JSON || o.Width() == 0 {
		table(o, outdatedColumns(), rows)
		return
	}
	tooWide := func(l ui.Line) bool { return utf8.RuneCountInString(l.Plain()) > o.Width() }
	if !slices.ContainsFunc(ui.Table(outdatedColumns(), cells(o, rows), math.MaxInt), tooWide) {
		table(o, outdatedColumns(), rows)
		return
	}
	var below []celled
	for _, r := range rows {
		below = append(below, belowRow{r}, reasonLine{r})
	}
	table(o, outdatedColumns()[:reasonColumn], below)
}

// mostOutdated is how many providers are listed without --verbose.
const mostOutdated = 20

// Outdated shows providers with the versions that could be chosen. Without --verbose, people see one row for each
// provider.
func (o *Output) Outdated(all []Outdated) {
	for i := range all {
		if at := all[i].SignedAt; !at.IsZero() {
			all[i].Signed = at.UTC().Format(time.RFC3339)
		}
	}
	slices.SortFunc(all, compareOutdated)
	for _, d := range all {
		o.Tell(d)
	}
	if o.Level == Verbose {
		o.outdatedTable(celledOf(all))
		return
	}
	groups := groupsOf(all)
	shown := min(len(groups), mostOutdated)
	o.outdatedTable(groups[:shown])
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

// groupsOf returns a row for each provider, those that can be upgraded first.
func groupsOf(all []Outdated) (rows []celled) {
	var groups []outdatedGroup
	for _, d := range all {
		if last := len(groups) - 1; last >= 0 && groups[last][0].Provider == d.Provider {
			groups[last] = append(groups[last], d)
		} else {
			groups = append(groups, outdatedGroup{d})
		}
	}
	slices.SortStableFunc(groups, func(a, b outdatedGroup) int { return cmp.Compare(b.rank(), a.rank()) })
	for _, g := range groups {
		if len(g[0].RootModules) == 0 { // there is only one
			rows = append(rows, g[0])
		} else {
			rows = append(rows, g)
		}
	}
	return rows
}

// celledOf returns a row for each of all.
func celledOf(all []Outdated) (rows []celled) {
	for _, d := range all {
		rows = append(rows, d)
	}
	return rows
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
		text += ": " + strings.Join(t.parts(), ", ")
	} else if t.Providers > 0 {
		text += " up to date"
	}
	if t.FailedRoots > 0 {
		text += "; " + ui.Count(t.FailedRoots, "root module") + " failed"
	}
	return text
}

func (t OutdatedSum) parts() []string {
	return ui.Numbers(ui.N(t.Upgradable, "upgradable"), ui.N(t.HeldBack, "held back"), ui.N(t.NotLocked, "not locked"), ui.N(t.UpToDate, "up to date"), ui.N(t.Unknown, "unknown"))
}
