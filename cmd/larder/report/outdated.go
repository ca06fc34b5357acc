package report

import (
	"cmp"
	"fmt"
	"slices"
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
	Refused  bool          `json:"refused,omitempty"` // the constraint refuses the locked version
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
	Standing
	Rank        Rank      `json:"-"`
	SignedAt    time.Time `json:"-"`                      // zero if unknown
	Signed      string    `json:"signed,omitempty"`       // when the publisher signed the locked version
	Places      []Place   `json:"places,omitempty"`       // of the constraint
	RootModules []string  `json:"root_modules,omitempty"` // empty if there is only one

	several bool           // there is more than one root module
	at      map[Place]bool // that are in Places
}

// Kind implements [Object].
func (Outdated) Kind() string { return "outdated" }

// Add adds a root module, which has a name if there are several, and the place of its constraint, if there is one.
func (d *Outdated) Add(root string, from sources.Origin) {
	if root != "" {
		d.RootModules, d.several = append(d.RootModules, root), true
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
	locked, allowed := ui.Plain.Of(d.Locked), ui.Plain.Of(cmp.Or(d.Allowed, "none"))
	if d.Locked == "" {
		locked.Text = "not locked"
	}
	if d.Rank == Upgradable {
		allowed.Paint = ui.Added
	}
	age := ""
	if !d.SignedAt.IsZero() {
		age = ui.Age(d.SignedAt, time.Now())
	}
	instead := ""
	if o.Level == Verbose && d.Instead != "" {
		instead = fmt.Sprintf("%q", d.Instead)
	}
	return []ui.Span{
		ui.Bold.Of(d.Provider), locked, {Text: d.roots()}, allowed, {Text: d.Newest}, ui.Faint.Of(age),
		{Text: o.ShortenHere(d.why())}, {Text: instead},
	}
}

// roots names the root module, or counts them.
func (d Outdated) roots() string {
	if len(d.RootModules) == 1 {
		return d.RootModules[0]
	}
	if d.several {
		return "in " + ui.Count(len(d.RootModules), "root module")
	}
	return ""
}

// why describes what excludes the newest version: a constraint with its place, or another rule.
func (d Outdated) why() string {
	text := string(d.Bar)
	if d.Constraint != "" {
		text = fmt.Sprintf("%q", d.Constraint)
	}
	if len(d.Places) > 0 {
		text += " at " + d.Places[0].String()
	}
	if more := len(d.Places) - 1; more > 0 {
		text += " and " + ui.Count(more, "other place")
	}
	if d.Refused {
		text += " refuses " + d.Locked
	}
	return text
}

// outdatedColumns are the columns of outdated providers.
func outdatedColumns() []ui.Column {
	return []ui.Column{
		{Head: "PROVIDER", Shorten: true}, {Head: "LOCKED"}, {Head: "ROOT MODULES", Shorten: true}, {Head: "ALLOWED"}, {Head: "NEWEST"},
		{Head: "AGE", Name: "age of the locked version", Drop: 3}, {Head: "HELD BACK BY", Drop: 1}, {Head: "TO ALLOW IT", Drop: 2},
	}
}

// Outdated shows providers with the versions that could be chosen.
func (o *Output) Outdated(all []Outdated) {
	slices.SortFunc(all, func(a, b Outdated) int {
		return cmp.Or(
			strings.Compare(a.Provider, b.Provider), len(b.RootModules)-len(a.RootModules), strings.Compare(a.root, b.root),
			strings.Compare(a.Locked, b.Locked), strings.Compare(a.Constraint, b.Constraint), slices.Compare(a.RootModules, b.RootModules),
		)
	})
	for i := range all {
		if at := all[i].SignedAt; !at.IsZero() {
			all[i].Signed = at.UTC().Format(time.RFC3339)
		}
	}
	Grid(o, outdatedColumns(), all)
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
