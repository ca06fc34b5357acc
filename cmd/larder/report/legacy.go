package report

import (
	"fmt"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
)

// A Legacy is a package that was imported from another layout, or that would be.
type Legacy struct {
	Typed `type:"imported"`
	PackageID
	How string `json:"how"`
	Verification
	What  string `json:"kind"`
	Path  string `json:"path"`
	Place string `json:"place,omitempty"`
	H1    string `json:"h1,omitempty"`

	mark ui.Span
	kept bool // it was there before: shown with --verbose
}

// LegacyOf returns what became of a candidate.
func LegacyOf(c legacy.Candidate, how string, s sources.Stored, mark ui.Span, kept bool) Legacy {
	return Legacy{
		PackageID: InJSON(c.ID), How: how, Verification: VerificationOf(s.Report), What: string(c.Kind), Path: c.Path,
		Place: s.Dir, H1: string(s.H1), mark: mark, kept: kept,
	}
}

// Cells implements [Row].
func (l Legacy) Cells(o *Output) []cell {
	if l.kept && o.Level != Verbose {
		return nil
	}
	file := cell{ui.Column{}, ui.Faint.Of("from " + o.Shorten(l.Path))}
	return marked(l.mark, append(l.cells(), verifiedColumn.of(l.As()), file)...)
}

// A LegacySum is the summary of an import from other layouts.
type LegacySum struct {
	Packages int  `json:"packages"` // imported or replaced, or that would be
	There    int  `json:"already_there"`
	Evidence int  `json:"evidence_added"` // of those, packages whose signed checksums were added, or would be
	Skipped  int  `json:"skipped"`        // files and directories that are not providers
	Failed   int  `json:"failed"`
	DryRun   bool `json:"dry_run,omitempty"`
}

// Text returns the summary as text.
func (s LegacySum) Text() string {
	text := also(said(s.DryRun, "Would import ", "Imported ")+ui.Count(s.Packages, "package"), there(s.There))
	if s.Evidence > 0 {
		text += fmt.Sprintf("; %s signed checksums for %d", said(s.DryRun, "would add", "added"), s.Evidence)
	}
	return also(text, ui.N(s.Skipped, "skipped"), ui.N(s.Failed, "failed"))
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
