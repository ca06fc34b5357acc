package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// A PackageID is a package in JSON. Objects about a package embed it, so that they all have the
// same members.
type PackageID struct {
	Provider string `json:"provider"`
	Version  string `json:"version"`
	Platform string `json:"platform"`
}

// InJSON returns the ID of a package for JSON.
func InJSON(id sources.PackageID) PackageID {
	return PackageID{id.Provider.String(), id.Version.String(), id.Platform.String()}
}

// Moment returns a time for programs, which have no use for fractions of seconds.
func Moment(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// IDCells returns the first cells of a row about the package.
func (p PackageID) IDCells() []Cell {
	return []Cell{ProviderColumn.Of(p.Provider), VersionColumn.Of(p.Version), platformColumn.Of(p.Platform)}
}

// Named names the package.
func (p PackageID) Named() string { return p.Provider + " " + p.Version + " " + p.Platform }

// An Outcome is what became of a package.
type Outcome struct {
	Typed `type:"package"`
	PackageID
	How installer.How `json:"how"`
	Verification
	Source  string           `json:"source,omitempty"`
	Link    sources.LinkMode `json:"link,omitempty"`
	H1      sources.Hash     `json:"h1,omitempty"`
	Offline bool             `json:"chosen_offline,omitempty"`
	Modules []string         `json:"modules,omitempty"`

	of installer.Outcome
}

// Text implements [Value].
func (p Outcome) Text(o *Output) string {
	return o.Package(p.of.Package.ID) + ": " + ui.Together(string(p.of.How), p.As(), string(p.Link))
}

// OutcomeOf returns what became of a package that some root modules require.
func OutcomeOf(p installer.Outcome, modules ...string) Outcome {
	return Outcome{
		Typed{}, InJSON(p.Package.ID), p.How, VerificationOf(p.Package.Report), p.Source, p.Link, p.Package.H1,
		p.Offline, modules, p,
	}
}

// Again returns the outcome of a package that was there before.
func (p Outcome) Again() Outcome {
	p.of.How += " again"
	return p
}

// A Change is a package of the result, and how it differs from the package before.
type Change struct {
	*installer.Outcome
	Was       sources.Version // the replaced version; zero if none
	Unchanged bool            // the package was there before: shown with --verbose
	Modules   []string        // root modules that require the package; empty if there is only one

	removed          sources.Release // from the lock file, instead of a package
	module           string          // empty if there is only one
	sized, platforms bool            // the table has sizes and platforms
}

// Changes shows the added and replaced packages. With --verbose it shows all packages, with
// more details. Programs get all packages. It also shows the lock entries that were removed because they
// are no longer required, which programs get with the lock file. Those of several root modules are shown
// in one table: see Together.
func (o *Output) Changes(all []Change, removed ...sources.Release) {
	others := slices.ContainsFunc(all, func(c Change) bool { return c.Package.ID.Platform != sources.CurrentPlatform() })
	// The order of downloads for several root modules is random, and the summary has the totals.
	sized := o.module == "" && slices.ContainsFunc(all, func(c Change) bool { return c.Size > 0 })
	var rows []Change
	for _, c := range all {
		o.About(c.Modules).Tell(OutcomeOf(*c.Outcome, c.Modules...))
		if !c.Unchanged || o.Level == Verbose {
			c.module, c.sized, c.platforms = o.module, sized, others
			rows = append(rows, c)
		}
	}
	for _, r := range removed {
		rows = append(rows, Change{Outcome: &installer.Outcome{}, removed: r, module: o.module})
	}
	if o.group != nil {
		o.group.changes = append(o.group.changes, rows...)
		return
	}
	o.changes(rows)
}

// changes shows changes. The root module of each is above it on a terminal, otherwise in front of it.
func (o *Output) changes(changes []Change) {
	var rows []celled
	module := ""
	for _, c := range changes {
		if o.Width() > 0 && c.module != module {
			module = c.module
			rows = append(rows, heading(module))
		}
		if o.Width() > 0 {
			c.module = ""
		}
		rows = append(rows, c)
	}
	Table(o, rows)
}

// A heading is the name of the root module that the following rows are about.
type heading string

// Cells implements [Row].
func (h heading) Cells(*Output) []Cell { return []Cell{{Span: ui.Bold.Of(string(h))}} }

// Cells implements [celled].
func (c Change) Cells(o *Output) []Cell {
	mark, id := ui.Added.Of(" +"), InJSON(c.Package.ID)
	module, size, verified, how, from := "", "", VerificationOf(c.Package.Report).As(), "", ""
	switch {
	case c.removed != (sources.Release{}):
		mark, verified = removedMark, ""
		id = PackageID{Provider: c.removed.Provider.String(), Version: c.removed.Version.String()}
	case c.Unchanged:
		mark = ui.Plain.Of("  ")
	case c.Was != (sources.Version{}):
		mark, id.Version = ui.Changed.Of(" ~"), c.Was.String()+" → "+id.Version
	}
	if c.module != "" {
		module, mark.Text = c.module+":", strings.TrimLeft(mark.Text, " ")
	}
	if !c.platforms {
		id.Platform = ""
	}
	if c.sized && c.Size > 0 {
		size = ui.Size(c.Size)
	}
	if o.Level == Verbose {
		how, from = ui.Together(string(c.How), string(c.Link)), c.Source
	}
	faint := Column{Paint: ui.Faint}
	return append([]Cell{{Span: ui.Plain.Of(module)}}, marked(mark,
		ProviderColumn.Of(id.Provider), VersionColumn.Of(id.Version), platformColumn.Painted(ui.Faint, id.Platform),
		SizeColumn.Of(size), VerifiedColumn.Of(verified), faint.Of(how), faint.Of(from))...)
}

// Resolved writes how many providers were resolved, if sources were queried for versions and
// there is only one root module.
func (o *Output) Resolved(providers, sources int) {
	if o.module == "" && o.queried.Load() {
		took := ui.Took(time.Duration(o.took.Load()))
		o.Say("Resolved %s from %s (%s)", ui.Count(providers, "provider"), ui.Count(sources, "source"), took)
	}
}

// A Missing is a package that does not exist or could not be fetched.
type Missing struct {
	Typed `type:"missing"`
	PackageID
	Why     string   `json:"text"`
	Modules []string `json:"modules,omitempty"`

	line string
}

// Text implements [Value].
func (m Missing) Text(*Output) string { return m.line }

// Missing shows that a package does not exist or could not be fetched.
func (o *Output) Missing(id sources.PackageID, modules []string, why error, format string, args ...any) {
	o.About(modules).Show(Missing{Typed{}, InJSON(id), why.Error(), modules, fmt.Sprintf(format, args...)})
}

// A LockFile is a lock file that was changed, or would be.
type LockFile struct {
	Typed   `type:"lock"`
	File    string   `json:"file"`
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
	DryRun  bool     `json:"dry_run,omitempty"`
}

// LockFileOf returns how a lock file was changed.
func LockFileOf(change installer.LockChange) LockFile {
	c := change.Shown()
	added, removed, changed := sources.Texts(c.Added), sources.Texts(c.Removed), sources.Texts(c.Changed)
	return LockFile{Typed{}, change.Path, added, removed, changed, !change.Written}
}

// LockFile reports how a lock file was changed, or would be.
func (o *Output) LockFile(change installer.LockChange) {
	file := LockFileOf(change)
	o.Tell(file)
	counts := ui.Numbers(
		ui.N(len(file.Added), "added"), ui.N(len(file.Changed), "changed"), ui.N(len(file.Removed), "removed"))
	if len(counts) == 0 {
		counts = []string{"its header"}
	}
	say := o.Say
	if o.module != "" { // the summary counts lock files
		say = o.Detail
	}
	say(Said(file.DryRun, "Would update", "Updated")+" %s: %s", change.Path, strings.Join(counts, ", "))
}

// A Listed is the summary of a list.
type Listed struct {
	Packages int   `json:"packages"`
	Size     int64 `json:"size"`
	Problems int   `json:"problems"` // in the whole cache
}
