package report

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A ProviderTotal contains the totals of one provider's packages.
type ProviderTotal struct {
	Typed    `type:"provider"`
	Provider string `json:"provider"`
	Packages int    `json:"packages"`
	Versions int    `json:"versions"`
	Size     int64  `json:"size"`
}

// Cells implements [Row].
func (t ProviderTotal) Cells(*Output) []Cell {
	return []Cell{
		ProviderColumn.Of(t.Provider),
		{ui.Column{Head: "SIZE", Right: true}, ui.Plain.Of(ui.Size(t.Size))},
		{ui.Column{Head: "VERSIONS", Right: true}, ui.Plain.Of(strconv.Itoa(t.Versions))},
		{ui.Column{Head: "PACKAGES", Right: true}, ui.Plain.Of(strconv.Itoa(t.Packages))},
	}
}

// totalsOf adds up entries by provider, the largest first.
func totalsOf(entries []cachedir.Entry) (totals []ProviderTotal) {
	for _, of := range GroupBy(entries, func(e cachedir.Entry) sources.Provider { return e.ID.Provider }) {
		t := ProviderTotal{Provider: of[0].ID.Provider.String(), Packages: len(of)}
		versions := map[sources.Version]bool{}
		for _, e := range of {
			t.Size += e.Size
			versions[e.ID.Version] = true
		}
		t.Versions = len(versions)
		totals = append(totals, t)
	}
	slices.SortStableFunc(totals, func(a, b ProviderTotal) int { return cmp.Compare(b.Size, a.Size) })
	return totals
}

// A CacheTotal is the summary of the contents of a cache.
type CacheTotal struct {
	Packages int   `json:"packages"`
	Roots    int   `json:"roots"`
	Size     int64 `json:"size"`
	Prunable int64 `json:"prunable"`
}

// Stats shows the totals of the cache at path, and what a prune by plan would remove.
func (o *Output) Stats(path string, plan *cachedir.Plan) {
	listing := plan.Listing
	totals := totalsOf(listing.Entries)
	total := CacheTotal{len(listing.Entries), listing.Users(), plan.Size, plan.Freed}
	if plan.Blocked != nil {
		total.Prunable = 0
	}
	o.Summary(total)
	tellAll(o, UsageOf(plan.Usage))
	tellAll(o, totals)
	all := total.Size + plan.Usage.Total().Bytes
	o.Sentence("Plugin cache %s: %s on disk, used by %s", o.Shorten(path), ui.Size(all), ui.Count(total.Roots, "root module"))
	Table(o, usageRows(totals, total, plan))
	Table(o, totals)
	if plan.Blocked == nil && !plan.Empty() {
		o.Sentence("larder cache prune would remove %s", RemovedText(plan.Removed))
	}
}

// usageRows returns what the cache contains. The unused packages are part of the packages.
func usageRows(totals []ProviderTotal, total CacheTotal, plan *cachedir.Plan) []CacheUsage {
	versions, unused := 0, cachedir.Amount{}
	for _, t := range totals {
		versions += t.Versions
	}
	for _, e := range plan.Listing.Entries {
		if e.Unused() {
			unused.Count++
			unused.Bytes += e.Size
		}
	}
	packages := cachedir.Amount{Count: total.Packages, Bytes: total.Size}
	hint := ui.Count(len(totals), "provider") + ", " + ui.Count(versions, "version")
	rows := []CacheUsage{usageOf("packages", packages, hint)}
	if unused.Count > 0 {
		rows = append(rows, usageOf("  unused", unused, "no known root module uses them"))
	}
	return append(rows, UsageOf(plan.Usage)...)
}
