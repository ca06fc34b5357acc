package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
)

// A Mirrored is a package in a mirror.
type Mirrored struct {
	Typed `type:"mirrored"`
	PackageID
	Path     string `json:"path"`
	Unpacked bool   `json:"unpacked"`
	Size     int64  `json:"size"`
	Since    string `json:"since,omitempty"` // not of a place
	Verification
	Changed  bool     `json:"changed,omitempty"`
	Damaged  bool     `json:"damaged,omitempty"`
	Evidence bool     `json:"evidence"`
	Hashes   []string `json:"hashes,omitempty"`
	Origin   string   `json:"origin,omitempty"`

	of builder.Entry
}

// MirroredOf returns an entry of a mirror.
func MirroredOf(e builder.Entry) Mirrored {
	since := ""
	if !e.Since.IsZero() {
		since = e.Since.UTC().Format("2006-01-02T15:04:05Z")
	}
	return Mirrored{
		PackageID: InJSON(e.ID), Path: e.Path, Unpacked: e.Unpacked, Size: e.Size, Since: since,
		Changed: e.Stored.Differs != "", Damaged: e.Err != nil, Evidence: e.Evidence, Origin: e.Origin, Hashes: sources.Texts(e.Hashes), Verification: VerificationOf(e.Stored.Report), of: e,
	}
}

// Cells implements [Row].
func (m Mirrored) Cells(o *Output) []ui.Span {
	by := ui.Faint.Of("")
	if o.Level == Verbose {
		by.Text = VerificationOf(m.of.Stored.Report).Long()
	}
	return append(m.cells(o), by)
}

// cells returns the cells that all tables of a mirror's packages have.
func (m Mirrored) cells(o *Output) []ui.Span {
	verdict := VerifiedAs(m.of.Stored.Report)
	switch {
	case m.Damaged:
		verdict = "damaged"
	case m.Changed:
		verdict = ChangedSince
	case m.Evidence && !m.of.Stored.Proof.Any():
		verdict = "not verified on this machine"
	}
	if m.Unpacked {
		verdict += ", unpacked"
	}
	size, since := ui.Size(m.Size), ui.Since(m.of.Since, time.Now())
	if m.of.Since.IsZero() { // in a place, which doesn't say when a package was added, and perhaps not how large it is
		since = ""
	}
	if m.Size == 0 {
		size = ""
	}
	return []ui.Span{
		ui.Bold.Of(o.Name(m.of.ID.Provider)), {Text: m.Version}, {Text: m.Platform},
		{Text: size}, ui.Faint.Of(since), {Text: verdict},
	}
}

// mirrorColumns are the columns of a mirror's packages.
func mirrorColumns() []ui.Column {
	return []ui.Column{
		{Head: "PROVIDER", Shorten: true}, {Head: "VERSION"}, {Head: "PLATFORM", Keep: true, Drop: 1},
		{Head: "SIZE", Right: true, Drop: 3}, {Head: "ADDED", Drop: 4}, {Head: "VERIFIED AS", Brief: WithoutKey, Drop: 2}, {Name: "signer", Drop: 5},
	}
}

// Mirrored shows packages in a mirror.
func (o *Output) Mirrored(entries []builder.Entry) {
	var rows []Mirrored
	for _, e := range entries {
		rows = append(rows, MirroredOf(e))
	}
	Grid(o, mirrorColumns(), rows)
}

// A MirrorRemoval is a package that was removed from a mirror, or that would be.
type MirrorRemoval struct {
	Typed `type:"removal"`
	Mirrored
	DryRun bool `json:"dry_run"`
}

// Cells implements [Row].
func (r MirrorRemoval) Cells(o *Output) []ui.Span { return r.cells(o) }

// MirrorRemovals shows packages that were removed, or that would be if they are planned.
func (o *Output) MirrorRemovals(entries []builder.Entry, planned bool) {
	var rows []MirrorRemoval
	for _, e := range entries {
		rows = append(rows, MirrorRemoval{Typed{}, MirroredOf(e), planned})
	}
	Grid(o, mirrorColumns(), rows)
}

// A MirrorTotal contains the totals of a mirror.
type MirrorTotal struct {
	Packages int
	Size     int64 // bytes
}

// Text describes the mirror in dir: "/srv/providers: 12 packages, 388 MB".
func (t MirrorTotal) Text(dir string) string {
	return fmt.Sprintf("%s: %s, %s", dir, ui.Count(t.Packages, "package"), ui.Size(t.Size))
}

// A Document is a file of a mirror's index that was changed, or that would be.
type Document struct {
	Typed  `type:"document"`
	Path   string `json:"path"`
	Do     string `json:"do"`
	DryRun bool   `json:"dry_run"`
}

// Text implements [Value].
func (d Document) Text(*Output) string { return d.Path + ": " + d.Do }

// An Indexed is the summary of rebuilding an index.
type Indexed struct {
	Written int  `json:"written"`
	Removed int  `json:"removed"`
	LeftOut int  `json:"left_out"` // archives
	DryRun  bool `json:"dry_run,omitempty"`
}

// Add counts a change, and returns it.
func (s *Indexed) Add(c builder.Change) Document {
	did := "written"
	if c.Removed {
		did = "removed"
		s.Removed++
	} else {
		s.Written++
	}
	if s.DryRun {
		did = "would be " + did
	}
	return Document{Typed{}, c.Path, did, s.DryRun}
}

// Text returns the summary as text.
func (s Indexed) Text() string {
	text := "The index is up to date"
	switch {
	case s.Written+s.Removed == 0:
	case s.DryRun:
		text = fmt.Sprintf("Would write %s and remove %d", ui.Count(s.Written, "file"), s.Removed)
	default:
		text = fmt.Sprintf("Wrote %s, removed %d", ui.Count(s.Written, "file"), s.Removed)
	}
	if s.LeftOut > 0 {
		text += fmt.Sprintf("; left out %s", ui.Count(s.LeftOut, "archive"))
	}
	return text
}

// ThereText describes how many packages were there before: "; 11 were there".
func ThereText(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "; 1 already there"
	}
	return fmt.Sprintf("; %d already there", n)
}

// A Difference is a package, or the evidence for a version, that differs between two mirrors
// or is missing from one.
type Difference struct {
	Typed    `type:"difference"`
	Provider string   `json:"provider"`
	Version  string   `json:"version"`
	Platform string   `json:"platform,omitempty"` // if the difference is a package
	Evidence bool     `json:"evidence,omitempty"`
	In       string   `json:"in"` // first, second or both
	First    []string `json:"first,omitempty"`
	Second   []string `json:"second,omitempty"`
}

// DifferenceOf returns a difference that was found.
func DifferenceOf(found bundle.Difference) Difference {
	d := Difference{Provider: found.ID.Provider.String(), Version: found.ID.Version.String(), In: "both"}
	if d.Evidence = found.ID.Platform == (sources.Platform{}); !d.Evidence {
		d.Platform = found.ID.Platform.String()
	}
	switch {
	case !found.Second:
		d.In = "first"
	case !found.First:
		d.In = "second"
	case !d.Evidence:
		d.First, d.Second = sources.Texts(found.Hashes[0]), sources.Texts(found.Hashes[1])
	}
	return d
}

// about names the part of the version that differs.
func (d Difference) about() string {
	if d.Evidence {
		return "evidence"
	}
	return d.Platform
}

// what describes the difference.
func (d Difference) what() string {
	switch {
	case d.In != "both":
		return "only in the " + d.In
	case d.Evidence:
		return "differs"
	}
	return "differs: " + strings.Join(d.First, " ") + " in the first, " + strings.Join(d.Second, " ") + " in the second"
}

// Text implements [Value].
func (d Difference) Text(*Output) string {
	return d.Provider + " " + d.Version + " " + d.about() + "  " + d.what()
}

// A Compared is the summary of comparing two mirrors.
type Compared struct {
	Differences int `json:"differences"`
	First       int `json:"packages_first"`
	Second      int `json:"packages_second"`
}
