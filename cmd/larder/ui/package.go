package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// A PackageID names a package in JSON. Objects about a package embed it, so that all
// of them name it alike.
type PackageID struct {
	Provider string `json:"provider"`
	Version  string `json:"version"`
	Platform string `json:"platform"`
}

// InJSON returns the ID of a package for JSON.
func InJSON(id sources.PackageID) PackageID {
	return PackageID{id.Provider.String(), id.Version.String(), id.Platform.String()}
}

// An outcome is what became of a package, in JSON.
type outcome struct {
	PackageID
	How     installer.How    `json:"how"`
	Verdict sources.Verdict  `json:"verdict"`
	KeyID   string           `json:"key_id,omitempty"`
	Source  string           `json:"source,omitempty"`
	Link    sources.LinkMode `json:"link,omitempty"`
	H1      sources.Hash     `json:"h1,omitempty"`
	Modules []string         `json:"modules,omitempty"`
}

// OutcomeInJSON returns what became of a package for JSON.
func OutcomeInJSON(p installer.Outcome) any { return outcomeInJSON(p, nil) }

// outcomeInJSON is OutcomeInJSON for a package that several root modules need.
func outcomeInJSON(p installer.Outcome, modules []string) any {
	return outcome{InJSON(p.Package.ID), p.How, p.Package.Verdict, p.KeyID, p.Source, p.Link, p.Package.H1, modules}
}

// OutcomeText describes what became of a package, without its name.
func OutcomeText(p installer.Outcome) string {
	words := []string{string(p.How), SignedBy(p.Package.Verdict, p.KeyID)}
	if p.Link != "" {
		words = append(words, string(p.Link))
	}
	return strings.Join(words, ", ")
}

// SignedBy is a verdict with the key that signed the checksums, if it is known. HashiCorp's
// key needs no ID.
func SignedBy(v sources.Verdict, keyID string) string {
	switch {
	case keyID == "" || v == sources.SignedByHashiCorp || v <= sources.HashOnly:
		return v.String()
	case v == sources.MirrorEvidence:
		return "signed, key " + keyID + " from the mirror"
	}
	return v.String() + ", key " + keyID
}

// Outcome writes what became of a package as a line of the result.
func (o *Output) Outcome(p installer.Outcome) {
	o.Result("package", OutcomeInJSON(p), "%s  %s", p.Package.ID, OutcomeText(p))
}

// A Change is a package of the result, and how it differs from what was there before.
type Change struct {
	installer.Outcome
	Was       sources.Version // that it replaces; zero if it replaces none
	Unchanged bool            // it was there already: shown with --verbose
	Modules   []string        // root modules that need it; empty if there is one
}

// Changes writes what became of packages: those that were added and replaced, with
// --verbose all and in more detail. With --json, all are objects.
func (o *Output) Changes(all []Change) {
	if o.JSON {
		for _, c := range all {
			o.About(c.Modules).Object("package", outcomeInJSON(c.Outcome, c.Modules))
		}
		return
	}
	others := slices.ContainsFunc(all, func(c Change) bool { return c.Package.ID.Platform != sources.CurrentPlatform() })
	// Which of several root modules fetches a package is chance, and the summary has the sum.
	sized := o.module == "" && slices.ContainsFunc(all, func(c Change) bool { return c.Size > 0 })
	var rows []Row
	for _, c := range all {
		if !c.Unchanged || o.Level == Verbose {
			rows = append(rows, o.changeRow(c, sized, others))
		}
	}
	columns := []Column{{}, {Shorten: true}, {}, {}, {Right: true, Drop: 2}, {Drop: 1}, {Drop: 3}, {Drop: 4}}
	if width := o.Width(); width > 0 && tableWidth(columns, rows) > width { // the verdict says more than the key
		i := 0
		for _, c := range all {
			if !c.Unchanged || o.Level == Verbose {
				rows[i].Cells[5].Text = c.Package.Verdict.String()
				i++
			}
		}
	}
	o.Grid("package", columns, rows)
}

// changeRow is a line of Changes, with sizes and platforms if any of them is worth showing.
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
		{Text: SignedBy(c.Package.Verdict, c.KeyID)}, {how, Faint}, {from, Faint},
	}}
}

// Resolved says how many providers were resolved, if sources were asked for versions and
// there is but one root module.
func (o *Output) Resolved(providers, sources int) {
	if o.module == "" && o.choice.queried.Load() {
		o.Say("Resolved %s from %s (%s)", Count(providers, "provider"), Count(sources, "source"), Took(time.Duration(o.choice.took.Load())))
	}
}

// Removed writes a package or lock entry that is no longer needed.
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
		var counts []string
		for _, kind := range []struct {
			n    int
			what string
		}{{len(change.Added), "added"}, {len(change.Changed), "changed"}, {len(change.Removed), "removed"}} {
			if kind.n > 0 {
				counts = append(counts, fmt.Sprintf("%d %s", kind.n, kind.what))
			}
		}
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

// A Finding is something wrong in a store, in JSON.
type Finding struct {
	Kind       string `json:"kind"`
	Path       string `json:"path"`
	*PackageID        // nil if no package is affected
	Text       string `json:"text"`
}

// FindingOf returns what is wrong with a path, and with a package unless id is nil.
func FindingOf[Kind ~string](kind Kind, path string, id *sources.PackageID, text string) Finding {
	f := Finding{Kind: string(kind), Path: path, Text: text}
	if id != nil {
		named := InJSON(*id)
		f.PackageID = &named
	}
	return f
}
