package report

import (
	"fmt"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
)

// An Imported is a package that was imported into a mirror, from a bundle or another layout, or that would be.
type Imported struct {
	Typed `type:"imported"`
	PackageID
	How string `json:"how"`
	Verification
	Kind  string       `json:"kind,omitempty"` // what was imported; absent for a package of a bundle
	Path  string       `json:"path"`           // of that
	Place string       `json:"place,omitempty"`
	Size  int64        `json:"size,omitempty"` // of a package of a bundle
	ZH    sources.Hash `json:"zh,omitempty"`
	H1    sources.Hash `json:"h1,omitempty"`

	did bundle.How
}

// ImportedFrom returns what became of a candidate, or would.
func ImportedFrom(c legacy.Candidate, did bundle.How, planned bool, s sources.Stored) Imported {
	return Imported{
		PackageID: InJSON(c.ID), How: howText(did, planned), Verification: VerificationOf(s.Report),
		Kind: string(c.Kind), Path: c.Path, Place: s.Dir, H1: s.H1, did: did,
	}
}

// Cells implements [Row].
func (i Imported) Cells(o *Output) []Cell {
	if i.did == bundle.Known && o.Level != Verbose {
		return nil
	}
	size, from := "", ""
	if i.Kind == "" {
		size = ui.Size(i.Size)
	} else {
		from = "from " + o.Shorten(i.Path)
	}
	return marked(marks[i.did],
		append(i.IDCells(), SizeColumn.Of(size), VerifiedColumn.Of(i.As()), Column{Paint: ui.Faint}.Of(from))...)
}

// An ImportSum is the summary of an import into a mirror or a plugin cache.
type ImportSum struct {
	Packages int   `json:"packages"`                 // imported or replaced, or that would be
	Size     int64 `json:"size,omitempty"`           // of a bundle's
	There    int   `json:"already_there"`            // packages
	Evidence int   `json:"evidence_added,omitempty"` // of those, packages whose signed checksums were added, or would be
	Payloads int   `json:"payloads,omitempty"`       // as packages
	Removed  int   `json:"removed,omitempty"`        // packages that the sender of a bundle has removed; as packages
	Kept     int   `json:"kept,omitempty"`           // those that stay
	Skipped  int   `json:"skipped,omitempty"`        // files and directories that are not providers
	Failed   int   `json:"failed,omitempty"`
	DryRun   bool  `json:"dry_run,omitempty"`
}

// Text returns the summary as text.
func (s ImportSum) Text() string {
	text := Also(Said(s.DryRun, "Would import ", "Imported ")+ui.Count(s.Packages, "package"), there(s.There))
	if s.Evidence > 0 {
		text += fmt.Sprintf("; %s signed checksums for %d", Said(s.DryRun, "would add", "added"), s.Evidence)
	}
	return Also(text, ui.N(s.Skipped, "skipped"), ui.N(s.Failed, "failed"))
}

// A Skipped is a file or directory that is not a provider.
type Skipped struct {
	Typed  `type:"skipped"`
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Skipped reports what was skipped.
func (o *Output) Skipped(all []legacy.Skipped) {
	const most = 50 // those beyond are of the same sort, as a rule
	for i, p := range all {
		o.Tell(Skipped{Typed{}, p.Path, p.Reason})
		if i < most {
			o.Say("%s", p)
		}
	}
	if more := len(all) - most; more > 0 {
		o.Say("and %d more skipped", more)
	}
}
