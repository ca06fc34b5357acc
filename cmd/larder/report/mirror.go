package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A Mirrored is a package in a mirror.
type Mirrored struct {
	Typed `type:"mirrored"`
	PackageID
	Path     string    `json:"path"`
	Unpacked bool      `json:"unpacked"`
	Size     int64     `json:"size"`
	Since    time.Time `json:"since,omitzero"` // not of a place
	Verification
	Changed  bool     `json:"changed,omitempty"`
	Damaged  bool     `json:"damaged,omitempty"`
	Evidence bool     `json:"evidence"`
	Hashes   []string `json:"hashes,omitempty"`
	Origin   string   `json:"origin,omitempty"`

	unproved bool // nothing was proved about it on this machine
}

// MirroredOf returns an entry of a mirror.
func MirroredOf(e builder.Entry) Mirrored {
	return Mirrored{
		PackageID: InJSON(e.ID), Path: e.Path, Unpacked: e.Unpacked, Size: e.Size, Since: Moment(e.Since),
		Verification: VerificationOf(e.Stored.Report), Changed: e.Stored.Differs != "", Damaged: e.Err != nil,
		Evidence: e.Evidence, Hashes: sources.Texts(e.Hashes), Origin: e.Origin, unproved: !e.Stored.Proof.Any(),
	}
}

// Cells implements [Row].
func (m Mirrored) Cells(o *Output) []Cell { return append(m.cells(), m.SignedBy(o)) }

// cells returns the cells that all tables of a mirror's packages have.
func (m Mirrored) cells() []Cell {
	verdict := m.As()
	switch {
	case m.Damaged:
		verdict = "damaged"
	case m.Changed:
		verdict = ChangedSince
	case m.Evidence && m.unproved:
		verdict = "not verified on this machine"
	}
	if m.Unpacked {
		verdict += ", unpacked"
	}
	size, since := "", "" // a place doesn't say when a package was added, and perhaps not how large it is
	if m.Size > 0 {
		size = ui.Size(m.Size)
	}
	if !m.Since.IsZero() {
		since = ui.Since(m.Since, time.Now())
	}
	return append(m.PackageID.IDCells(), SizeColumn.Of(size), Column{Head: "ADDED", Paint: ui.Faint}.Of(since),
		VerifiedColumn.Of(verdict))
}

// A MirrorRemoval is a package that was removed from a mirror, or that would be.
type MirrorRemoval struct {
	Typed `type:"removal"`
	Mirrored
	DryRun bool `json:"dry_run"`

	besides bool // it is shown with packages that were added
}

// Cells implements [Row].
func (r MirrorRemoval) Cells(*Output) []Cell {
	if r.besides {
		return marked(removedMark, r.cells()...)
	}
	return r.cells()
}

// MirrorRemovals shows packages that were removed, or that would be if they are planned.
func (o *Output) MirrorRemovals(entries []builder.Entry, planned bool) {
	GridOf(o, entries, func(e builder.Entry) MirrorRemoval {
		return MirrorRemoval{Typed{}, MirroredOf(e), planned, false}
	})
}

// A SetSum is the summary of signing a set.
type SetSum struct {
	Packages  int    `json:"packages"`
	Key       string `json:"key"` // fingerprint
	Unchanged bool   `json:"unchanged,omitempty"`
}

// SetText describes a signed set: "set of 3 packages, signed with the key …".
func SetText(set *trust.Set) string {
	var keys []string
	for _, s := range set.Signers {
		keys = append(keys, string(s.Fingerprint))
	}
	return "set of " + ui.Count(len(set.Packages), "package") + ", signed with the key " + ui.List("and", keys)
}

// MirrorText describes the mirror in dir: "/srv/providers: 12 packages, 388 MB".
func MirrorText(dir string, entries []builder.Entry) string {
	return fmt.Sprintf("%s: %s, %s", dir, ui.Count(len(entries), "package"), BytesOf(entries))
}

// BytesOf describes the size of packages in a mirror.
func BytesOf(entries []builder.Entry) string {
	size := int64(0)
	for _, e := range entries {
		size += e.Size
	}
	return ui.Size(size)
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
	did, n := "written", &s.Written
	if c.Removed {
		did, n = "removed", &s.Removed
	}
	*n++
	return Document{Typed{}, c.Path, Said(s.DryRun, "would be ", "") + did, s.DryRun}
}

// Text returns the summary as text.
func (s Indexed) Text() string {
	text := "The index is up to date"
	if s.Written+s.Removed > 0 {
		format := Said(s.DryRun, "Would write %s and remove %d", "Wrote %s, removed %d")
		text = fmt.Sprintf(format, ui.Count(s.Written, "file"), s.Removed)
	}
	if s.LeftOut > 0 {
		text += "; left out " + ui.Count(s.LeftOut, "archive")
	}
	return text
}

// there counts packages that were there before.
func there(n int) ui.Number { return ui.N(n, "already there") }

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
	if d.Evidence = bundle.IsEvidence(found.ID); !d.Evidence {
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

// Text implements [Value].
func (d Difference) Text(*Output) string {
	about := d.Platform
	what := "differs: " + strings.Join(d.First, " ") + " in the first, " + strings.Join(d.Second, " ") + " in the second"
	if d.Evidence {
		about, what = "evidence", "differs"
	}
	if d.In != "both" {
		what = "only in the " + d.In
	}
	return d.Provider + " " + d.Version + " " + about + "  " + what
}

// A Compared is the summary of comparing two mirrors.
type Compared struct {
	Differences int `json:"differences"`
	First       int `json:"packages_first"`
	Second      int `json:"packages_second"`
}
