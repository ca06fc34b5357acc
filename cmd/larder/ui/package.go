package ui

import (
	"slices"
	"strings"
	"time"

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

// An outcome is the result for a package, in JSON.
type outcome struct {
	PackageID
	How installer.How `json:"how"`
	Verification
	Source  string           `json:"source,omitempty"`
	Link    sources.LinkMode `json:"link,omitempty"`
	H1      sources.Hash     `json:"h1,omitempty"`
	Offline bool             `json:"chosen_offline,omitempty"`
	Modules []string         `json:"modules,omitempty"`
}

// OutcomeInJSON returns the result for a package as JSON.
func OutcomeInJSON(p installer.Outcome) any { return outcomeInJSON(p, nil) }

// outcomeInJSON is like OutcomeInJSON, for a package that several root modules require.
func outcomeInJSON(p installer.Outcome, modules []string) any {
	return outcome{InJSON(p.Package.ID), p.How, VerificationOf(p.Package.Report), p.Source, p.Link, p.Package.H1, p.Offline, modules}
}

// OutcomeText describes the result for a package, without its name.
func OutcomeText(p installer.Outcome) string {
	words := []string{string(p.How), VerifiedAs(p.Package.Report)}
	if p.Link != "" {
		words = append(words, string(p.Link))
	}
	return strings.Join(words, ", ")
}

// A Change is a package of the result, and how it differs from the package before.
type Change struct {
	installer.Outcome
	Was       sources.Version // the replaced version; zero if none
	Unchanged bool            // the package was there before: shown with --verbose
	Modules   []string        // root modules that require the package; empty if there is only one
}

// Changes writes the added and replaced packages. With --verbose it writes all packages, with
// more details. With --json, it writes all packages as objects.
func (o *Output) Changes(all []Change) {
	if o.JSON {
		for _, c := range all {
			o.About(c.Modules).Object("package", outcomeInJSON(c.Outcome, c.Modules))
		}
		return
	}
	others := slices.ContainsFunc(all, func(c Change) bool { return c.Package.ID.Platform != sources.CurrentPlatform() })
	// The order of downloads for several root modules is random, and the summary has the totals.
	sized := o.module == "" && slices.ContainsFunc(all, func(c Change) bool { return c.Size > 0 })
	all = slices.DeleteFunc(slices.Clone(all), func(c Change) bool { return c.Unchanged && o.Level != Verbose })
	rows := make([]Row, len(all))
	for i, c := range all {
		rows[i] = o.changeRow(c, sized, others)
	}
	o.Grid("package", []Column{{}, {Shorten: true}, {}, {}, {Right: true, Drop: 2}, {Brief: WithoutKey, Drop: 1}, {Drop: 3}, {Drop: 4}}, rows)
}

// changeRow is a row of Changes, with sizes and platforms if any row requires them.
func (o *Output) changeRow(c Change, sized, platforms bool) Row {
	mark := Span{" +", Added}
	id := c.Package.ID
	version := id.Version.String()
	switch {
	case c.Unchanged:
		mark = Span{"  ", Plain}
	case c.Was != (sources.Version{}):
		mark, version = Span{" ~", Changed}, c.Was.String()+" → "+version
	}
	platform, size, how, from := "", "", "", ""
	if platforms {
		platform = id.Platform.String()
	}
	if sized && c.Size > 0 {
		size = Size(c.Size)
	}
	if o.Level == Verbose {
		if how = string(c.How); c.Link != "" {
			how += ", " + string(c.Link)
		}
		from = c.Source
	}
	return Row{Cells: []Span{
		mark, {o.Name(id.Provider), Bold}, {Text: version}, {platform, Faint}, {Text: size},
		{Text: VerifiedAs(c.Package.Report)}, {how, Faint}, {from, Faint},
	}}
}

// Resolved writes how many providers were resolved, if sources were queried for versions and
// there is only one root module.
func (o *Output) Resolved(providers, sources int) {
	if o.module == "" && o.choice.queried.Load() {
		o.Say("Resolved %s from %s (%s)", Count(providers, "provider"), Count(sources, "source"), Took(time.Duration(o.choice.took.Load())))
	}
}

// Removed writes a package or lock entry that was removed because it is no longer required.
func (o *Output) Removed(p sources.Provider, v sources.Version) {
	o.result(Line{{" - ", Removed}, {o.Name(p), Bold}, {Text: " " + v.String()}})
}

// Missing writes that a package does not exist or could not be fetched.
func (o *Output) Missing(id sources.PackageID, modules []string, why error, format string, args ...any) {
	o.About(modules).Result("missing", struct {
		PackageID
		Text    string   `json:"text"`
		Modules []string `json:"modules,omitempty"`
	}{InJSON(id), why.Error(), modules}, format, args...)
}

// LockFile writes how a lock file was changed.
func (o *Output) LockFile(change installer.LockChange) {
	if !o.JSON {
		counts := Numbers(Number{len(change.Added), "added"}, Number{len(change.Changed), "changed"}, Number{len(change.Removed), "removed"})
		if len(counts) == 0 {
			counts = []string{"its header"}
		}
		say := o.Say
		if o.module != "" { // the summary counts lock files
			say = o.Detail
		}
		say("Updated %s: %s", change.Path, strings.Join(counts, ", "))
		return
	}
	o.Object("lock", struct {
		File    string   `json:"file"`
		Added   []string `json:"added"`
		Removed []string `json:"removed"`
		Changed []string `json:"changed"`
	}{change.Path, sources.Texts(change.Added), sources.Texts(change.Removed), sources.Texts(change.Changed)})
}

// A Finding is a problem in a store, in JSON.
type Finding struct {
	Kind       string `json:"kind"`
	Path       string `json:"path"`
	*PackageID        // nil if no package is affected
	Text       string `json:"text"`
}

// FindingOf returns the problem with a path, and with a package unless id is nil.
func FindingOf[Kind ~string](kind Kind, path string, id *sources.PackageID, text string) Finding {
	f := Finding{Kind: string(kind), Path: path, Text: text}
	if id != nil {
		named := InJSON(*id)
		f.PackageID = &named
	}
	return f
}
