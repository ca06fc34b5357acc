package cache

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// A cachedSize is the space that a package takes in the cache, and for whom.
type cachedSize struct {
	report.PackageID
	Size   int64     `json:"size"`
	Freed  int64     `json:"freed"`
	Used   time.Time `json:"used,omitzero"`
	Roots  []string  `json:"roots"`
	Linked bool      `json:"linked"`
	Kept   bool      `json:"kept,omitempty"`
}

func sizeOf(e cachedir.Entry) cachedSize {
	roots := append([]string{}, e.Roots...)
	return cachedSize{report.InJSON(e.ID), e.Size, e.Freed, report.Moment(e.Used), roots, e.Linked, e.Kept}
}

// lastUsed returns the cell with the last use.
func (c cachedSize) lastUsed() report.Cell {
	return report.Column{Head: "LAST USED", Paint: ui.Faint}.Of(ui.Since(c.Used, time.Now()))
}

// users describes the users of a package: known root modules, or else the directories that
// share its files by hard links.
func (c cachedSize) users() string {
	switch {
	case len(c.Roots) > 0:
		return ui.Count(len(c.Roots), "root module")
	case c.Linked:
		return "linked"
	case c.Kept:
		return "kept"
	}
	return "unused"
}

// A Cached is a package in the cache.
type Cached struct {
	report.Typed `type:"cached"`
	cachedSize
	report.Verification
	Changed  bool       `json:"changed,omitempty"`
	Problem  store.Kind `json:"problem,omitempty"` // why it can't be used
	Evidence bool       `json:"evidence"`
	H1       string     `json:"h1,omitempty"`
	Origin   string     `json:"origin,omitempty"`
	Target   string     `json:"target,omitempty"`
}

// Cells implements [report.Row].
func (c Cached) Cells(o *report.Output) []report.Cell {
	verified := c.As()
	switch {
	case c.Problem != "":
		verified = string(c.Problem)
	case c.Changed:
		verified = report.ChangedSince
	}
	usage := report.Column{Head: "USAGE"}.Of(c.users())
	return append(c.IDCells(), report.SizeColumn.Of(ui.Size(c.Size)), c.lastUsed(), usage,
		report.VerifiedColumn.Of(verified), c.SignedBy(o))
}

// A Removal is a package that was removed from the cache, or that would be.
type Removal struct {
	report.Typed `type:"removal"`
	cachedSize
	Reason cachedir.Reason `json:"reason"`
	DryRun bool            `json:"dry_run"`
}

// showRemovals shows packages that were removed, or that would be if they are planned.
func showRemovals(o *report.Output, all []cachedir.Removal, planned bool) {
	report.GridOf(o, all, func(r cachedir.Removal) Removal {
		return Removal{report.Typed{}, sizeOf(r.Entry), r.Reason, planned}
	})
}

// Cells implements [report.Row]. With --all, the table shows the users instead of the reason.
func (r Removal) Cells(*report.Output) []report.Cell {
	why := string(r.Reason)
	switch {
	case r.Reason == cachedir.NoUser:
		why = "unused"
	case r.Reason == cachedir.Everything && len(r.Roots) > 0:
		why = "used by " + r.users()
	case r.Reason == cachedir.Everything:
		why = r.users()
	}
	// What is freed is less than the size if root modules share files with the package.
	frees := report.Column{Head: "FREES", Right: true}.Of(ui.Size(r.Freed))
	return append(r.IDCells(), frees, r.lastUsed(), report.Column{Head: "REASON"}.Of(why))
}

// A ProviderTotal contains the totals of one provider's packages.
type ProviderTotal struct {
	report.Typed `type:"provider"`
	Provider     string `json:"provider"`
	Packages     int    `json:"packages"`
	Versions     int    `json:"versions"`
	Size         int64  `json:"size"`
}

// Cells implements [report.Row].
func (t ProviderTotal) Cells(*report.Output) []report.Cell {
	return []report.Cell{
		report.ProviderColumn.Of(t.Provider), report.SizeColumn.Of(ui.Size(t.Size)),
		report.Column{Head: "VERSIONS", Right: true}.Of(strconv.Itoa(t.Versions)),
		report.Column{Head: "PACKAGES", Right: true}.Of(strconv.Itoa(t.Packages)),
	}
}

// totalsOf adds up entries by provider, the largest first.
func totalsOf(entries []cachedir.Entry) (totals []ProviderTotal) {
	for _, of := range report.GroupBy(entries, func(e cachedir.Entry) sources.Provider { return e.ID.Provider }) {
		t := ProviderTotal{Provider: of[0].ID.Provider.String(), Packages: len(of)}
		t.Versions = len(report.GroupBy(of, func(e cachedir.Entry) sources.Version { return e.ID.Version }))
		for _, e := range of {
			t.Size += e.Size
		}
		totals = append(totals, t)
	}
	slices.SortStableFunc(totals, func(a, b ProviderTotal) int { return cmp.Compare(b.Size, a.Size) })
	return totals
}

// A Usage is one kind of cache contents other than packages.
type Usage struct {
	report.Typed `type:"usage"`
	What         string `json:"kind"`
	Count        int    `json:"count"`
	Bytes        int64  `json:"bytes"`

	hint string
}

// Cells implements [report.Row].
func (u Usage) Cells(*report.Output) []report.Cell {
	number := report.Column{Right: true}
	return []report.Cell{
		report.Column{}.Of("  " + u.What), number.Of(strconv.Itoa(u.Count)), number.Of(ui.Size(u.Bytes)),
		report.Column{Paint: ui.Faint}.Of(u.hint),
	}
}

func usageOf(what string, a cachedir.Amount, hint string) Usage {
	return Usage{report.Typed{}, what, a.Count, a.Bytes, hint}
}

// A Total is the summary of the contents of a cache.
type Total struct {
	Packages int   `json:"packages"`
	Roots    int   `json:"roots"`
	Size     int64 `json:"size"`
	Prunable int64 `json:"prunable"`
}

// contents are the kinds of cache contents other than packages, in display order.
var contents = []struct {
	what cachedir.Content
	hint string
}{
	{cachedir.Evidence, "signed checksums and keys"},
	{cachedir.Records, "root modules and locks"},
	{cachedir.Working, "in use by other larder processes"},
	{cachedir.Archives, "of recent downloads; larder cache prune removes them"},
	{cachedir.Interrupted, "partial downloads, resumable"},
	{cachedir.Abandoned, "partial downloads; larder cache prune removes them"},
	{cachedir.Leftover, "from killed processes; larder cache prune removes it"},
	{cachedir.Quarantine, "damaged and changed files; " +
		"larder cache prune removes those in .larder/quarantine after 30 days"},
	{cachedir.Foreign, "files that are not part of a cache"},
	{cachedir.Others, "temporary files and downloads; only the users who own them can remove them"},
}

// showTotals shows the totals of the cache at path, and what a prune by plan would remove. The unused packages are part
// of the packages.
func showTotals(o *report.Output, path string, plan *cachedir.Plan) {
	listing := plan.Listing
	totals := totalsOf(listing.Entries)
	total := Total{len(listing.Entries), listing.Users(), plan.Size, plan.Freed}
	if plan.Blocked != nil {
		total.Prunable = 0
	}
	versions, unused := 0, cachedir.Amount{}
	for _, t := range totals {
		versions += t.Versions
	}
	for _, e := range listing.Entries {
		if e.Unused() {
			unused.Count++
			unused.Bytes += e.Size
		}
	}
	hint := ui.Count(len(totals), "provider") + ", " + ui.Count(versions, "version")
	rows := []Usage{usageOf("packages", cachedir.Amount{Count: total.Packages, Bytes: total.Size}, hint)}
	if unused.Count > 0 {
		rows = append(rows, usageOf("  unused", unused, "no known root module uses them"))
	}
	for _, kind := range contents {
		if amount := plan.Usage[kind.what]; amount.Count > 0 {
			usage := usageOf(string(kind.what), amount, kind.hint)
			rows = append(rows, usage)
			o.Tell(usage)
		}
	}
	o.Summary(total)
	all := total.Size + plan.Usage.Total().Bytes
	users := ui.Count(total.Roots, "root module")
	o.Sentence("Plugin cache %s: %s on disk, used by %s", o.Shorten(path), ui.Size(all), users)
	report.Table(o, rows)
	report.Grid(o, totals)
	if plan.Blocked == nil && !plan.Empty() {
		o.Sentence("larder cache prune would remove %s", removedText(plan.Removed))
	}
}

// removedText describes what a prune of a cache removes: "97 packages and 2 archives, 21.4 GB".
func removedText(r cachedir.Removed) string {
	b := r.Besides
	parts := report.Counted(ui.N(len(r.Packages), "package"), ui.N(b[cachedir.Archives].Count, "archive"),
		ui.N(b[cachedir.Abandoned].Count+b[cachedir.Leftover].Count+b[cachedir.Quarantine].Count, "leftover"))
	if r.Empty() {
		parts = []string{"0 packages"}
	}
	text := ui.List("and", parts) + ", " + ui.Size(r.Freed)
	used := 0
	for _, p := range r.Packages {
		if p.Reason == cachedir.Everything && !p.Unused() {
			used++
		}
	}
	if used > 0 {
		text += fmt.Sprintf(" (%d in use or kept)", used)
	}
	return text
}
