package report

import (
	"fmt"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/publish"
)

// A Pushed is a package that was stored in a place or removed from it, or that would be. With --verbose, there is one
// for each package that was there already.
type Pushed struct {
	Typed `type:"pushed"`
	PackageID
	Did    publish.Did `json:"did"`
	Size   int64       `json:"size,omitempty"` // of the archive; not if it was removed
	DryRun bool        `json:"dry_run"`
}

// Cells implements [Row].
func (p Pushed) Cells(*Output) []Cell {
	did := string(p.Did)
	switch {
	case p.Did == publish.Kept:
		did = "already there"
	case p.DryRun:
		did = "would be " + did
	}
	size := ""
	if p.Did != publish.Removed {
		size = ui.Size(p.Size)
	}
	return append(p.IDCells(), SizeColumn.Of(size), Column{Head: "PUSHED"}.Of(did))
}

// Pushed shows the changes of a place, and counts them.
func (o *Output) Pushed(r publish.Result, sum *PushSum) {
	var rows []Pushed
	counts := map[publish.Did]*int{
		publish.Added: &sum.Added, publish.Replaced: &sum.Replaced, publish.Removed: &sum.Removed, publish.Kept: &sum.Same,
	}
	for _, c := range r.Changes {
		*counts[c.Did]++
		if c.Did != publish.Kept {
			sum.Bytes += c.Size
		}
		if c.Did != publish.Kept || o.Level == Verbose {
			rows = append(rows, Pushed{Typed{}, InJSON(c.ID), c.Did, c.Size, sum.DryRun})
		}
	}
	sum.Differ, sum.Signed = r.Differ, r.Signed
	Grid(o, rows)
}

// A PushSum is the summary of pushing a mirror.
type PushSum struct {
	Added    int   `json:"added"`
	Replaced int   `json:"replaced"`
	Removed  int   `json:"removed"`
	Same     int   `json:"same"`             // packages that were there already
	Differ   int   `json:"differ"`           // packages with other contents, which were not replaced
	Signed   int   `json:"signed_checksums"` // versions that were there, and whose signed checksums were updated
	Failed   int   `json:"failed"`           // packages that were not pushed for other reasons
	Bytes    int64 `json:"bytes"`            // of the archives that were added or replaced
	DryRun   bool  `json:"dry_run,omitempty"`
}

// Text returns the summary for people.
func (s *PushSum) Text(place string) string {
	stored := s.Added + s.Replaced
	did := Said(s.DryRun, "Would push", "Pushed")
	text := fmt.Sprintf("%s is up to date", place)
	switch {
	case stored > 0:
		text = fmt.Sprintf("%s %s (%s) to %s", did, ui.Count(stored, "package"), ui.Size(s.Bytes), place)
	case s.Differ+s.Failed+s.Removed+s.Signed > 0:
		text = fmt.Sprintf("%s nothing to %s", did, place)
	}
	if s.Removed > 0 {
		text += fmt.Sprintf("; %s %s", Said(s.DryRun, "remove", "removed"), ui.Count(s.Removed, "package"))
	}
	if s.Signed > 0 {
		update := Said(s.DryRun, "update", "updated")
		text += fmt.Sprintf("; %s the signed checksums of %s", update, ui.Count(s.Signed, "version"))
	}
	return Also(text, there(s.Same), ui.N(s.Differ, "not replaced"), ui.N(s.Failed, "not pushed"))
}
