package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// A ProviderTotal contains the totals of one provider's packages.
type ProviderTotal struct {
	Typed    `type:"provider"`
	Provider string `json:"provider"`
	Packages int    `json:"packages"`
	Versions int    `json:"versions"`
	Size     int64  `json:"size"`

	of cachedir.Entry // the last one
}

// Cells implements [Row].
func (t ProviderTotal) Cells(o *Output) []ui.Span {
	return []ui.Span{ui.Bold.Of(o.Name(t.of.ID.Provider)), {Text: ui.Size(t.Size)}, {Text: strconv.Itoa(t.Versions)}, {Text: strconv.Itoa(t.Packages)}}
}

// totalsOf adds up entries by provider, the largest first.
func totalsOf(entries []cachedir.Entry) []ProviderTotal {
	var totals []ProviderTotal
	for _, e := range entries { // sorted by provider and version
		if len(totals) == 0 || e.ID.Provider != totals[len(totals)-1].of.ID.Provider {
			totals = append(totals, ProviderTotal{Provider: e.ID.Provider.String()})
		}
		t := &totals[len(totals)-1]
		t.Packages++
		t.Size += e.Size
		if e.ID.Version != t.of.ID.Version {
			t.Versions++
		}
		t.of = e
	}
	slices.SortStableFunc(totals, func(a, b ProviderTotal) int { return cmp.Compare(b.Size, a.Size) })
	return totals
}

// A CacheTotal contains the totals of a cache.
type CacheTotal struct {
	Typed    `type:"total"`
	Packages int   `json:"packages"`
	Roots    int   `json:"roots"`
	Size     int64 `json:"size"`
	Prunable int64 `json:"prunable"`
	Saved    int64 `json:"saved"`
}

// A statsRow is a line of the totals for people.
type statsRow struct {
	CacheUsage
}

// Cells implements [Row].
func (r statsRow) Cells(*Output) []ui.Span {
	return []ui.Span{{Text: "  " + r.What}, {Text: strconv.Itoa(r.Count)}, {Text: ui.Size(r.Bytes)}, ui.Faint.Of(r.Hint)}
}

// Stats shows the totals of the cache at path, and what a prune by plan would remove.
func (o *Output) Stats(path string, plan *cachedir.Plan) {
	listing := plan.Listing
	totals := totalsOf(listing.Entries)
	total := CacheTotal{Typed{}, len(listing.Entries), listing.Users(), plan.Size, plan.Freed, listing.Saved}
	if plan.Blocked != nil {
		total.Prunable = 0
	}
	o.Summary(total)
	if !o.JSON {
		o.stats(path, totals, total, plan)
		return
	}
	for _, u := range UsageOf(plan.Usage) {
		o.object(u)
	}
	for _, t := range totals {
		o.object(t)
	}
	o.object(total)
}

// stats is Stats as text.
func (o *Output) stats(path string, totals []ProviderTotal, total CacheTotal, plan *cachedir.Plan) {
	for _, t := range totals {
		o.mentions(t.Provider)
	}
	all := total.Size + plan.Usage.Total().Bytes
	o.Sentence("Plugin cache %s: %s on disk, used by %s", o.Shorten(path), ui.Size(all), ui.Count(total.Roots, "root module"))
	Grid(o, []ui.Column{{}, {Right: true}, {Right: true}, {Name: "explanations", Drop: 1}}, statsRows(totals, total, plan))
	if o.Level == Verbose {
		Grid(o, []ui.Column{{Head: "PROVIDER", Shorten: true}, {Head: "SIZE", Right: true}, {Head: "VERSIONS", Right: true, Drop: 1}, {Head: "PACKAGES", Right: true, Drop: 2}}, totals)
	} else if len(totals) > 0 {
		o.Sentence("Largest: %s", o.largest(totals))
	}
	if total.Saved > 0 {
		o.Sentence("Sharing packages saves %s", ui.Size(total.Saved))
	}
	if plan.Blocked == nil && !plan.Empty() {
		o.Sentence("larder cache prune would remove %s", RemovedText(plan.Removed))
	}
}

// statsRows returns what the cache contains. The unused packages are part of the packages.
func statsRows(totals []ProviderTotal, total CacheTotal, plan *cachedir.Plan) []statsRow {
	versions := 0
	for _, t := range totals {
		versions += t.Versions
	}
	rows := []statsRow{{CacheUsage{Typed{}, "packages", total.Packages, total.Size, ui.Count(len(totals), "provider") + ", " + ui.Count(versions, "version")}}}
	unused := cachedir.Amount{}
	for _, e := range plan.Listing.Entries {
		if e.Unused() {
			unused.Count++
			unused.Bytes += e.Size
		}
	}
	if unused.Count > 0 {
		rows = append(rows, statsRow{CacheUsage{Typed{}, "  unused", unused.Count, unused.Bytes, "no known root module uses them"}})
	}
	for _, u := range UsageOf(plan.Usage) {
		rows = append(rows, statsRow{u})
	}
	return rows
}

// largest lists the providers that use the most space: "hashicorp/aws 19.8 GB (31
// versions), … and 9 more".
func (o *Output) largest(totals []ProviderTotal) string {
	var names []string
	for _, t := range totals {
		names = append(names, fmt.Sprintf("%s %s (%s)", o.Name(t.of.ID.Provider), ui.Size(t.Size), ui.Count(t.Versions, "version")))
	}
	return ui.Some(names, 3)
}
