package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

func cacheStatsCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:        "stats",
		ArgsUsage:   "[FLAG...]",
		Usage:       "show the size of the plugin cache, by provider",
		UsageText:   "larder cache stats",
		Description: "Shows what larder cache prune would free, and how much sharing saves.",
		Flags:       []cli.Flag{rootsFlag()},
		Action:      func(c *cli.Context) error { return cacheStats(c, out) },
	}
}

// providerTotal contains the totals of one provider's packages.
type providerTotal struct {
	Provider string `json:"provider"`
	Packages int    `json:"packages"`
	Versions int    `json:"versions"`
	Size     int64  `json:"size"`

	name string // for display
}

// cacheStats adds up the cache. It plans a prune to find out how much that would free, so
// that both commands report the same number.
func cacheStats(c *cli.Context, out *ui.Output) error {
	k, listing, err := listCache(c, out, nil)
	if err != nil || k.cache == nil {
		return err
	}
	use, err := k.use(c)
	if err != nil {
		return err
	}
	plan, err := k.cache.PlanFor(c.Context, listing, cachedir.Policy{ListOptions: use})
	if err != nil {
		return err
	}
	totals := k.totalsOf(listing.Entries)
	total := cacheTotal{len(listing.Entries), len(listing.Roots), plan.Size, plan.Freed, listing.Saved}
	out.Summary(total)
	if out.JSON {
		for _, row := range usageRows(plan.Usage) {
			if row.Count > 0 {
				out.Object("usage", row)
			}
		}
		for _, t := range totals {
			out.Object("provider", t)
		}
		out.Object("total", total)
		return nil
	}
	k.tellStats(plan, totals, total)
	return nil
}

// cacheTotal contains the totals of a cache, in JSON.
type cacheTotal struct {
	Packages int   `json:"packages"`
	Roots    int   `json:"roots"`
	Size     int64 `json:"size"`
	Prunable int64 `json:"prunable"`
	Saved    int64 `json:"saved"`
}

// tellStats prints the totals of the cache as text.
func (k *targetCache) tellStats(plan *cachedir.Plan, totals []providerTotal, total cacheTotal) {
	all, versions := total.Size, 0
	for _, t := range totals {
		versions += t.Versions
	}
	row := func(kind string, n int, bytes int64, note string) ui.Row {
		return ui.Row{Cells: []ui.Span{{Text: "  " + kind}, {Text: strconv.Itoa(n)}, {Text: ui.Size(bytes)}, {Text: note, Paint: ui.Faint}}}
	}
	rows := []ui.Row{row("packages", total.Packages, total.Size, ui.Count(len(totals), "provider")+", "+ui.Count(versions, "version"))}
	if n := len(plan.Remove); n > 0 {
		rows = append(rows, row("unused", n, plan.Freed, "no known root module uses them"))
	}
	for _, u := range usageRows(plan.Usage) {
		all += u.Bytes
		if u.Count > 0 && (u.hint != "" || k.out.Level == ui.Verbose) {
			rows = append(rows, row(u.Kind, u.Count, u.Bytes, u.hint))
		}
	}
	k.out.Sentence("Plugin cache %s: %s on disk, used by %s", k.out.Shorten(k.path), ui.Size(all), ui.Count(total.Roots, "root module"))
	columns := []ui.Column{{}, {Right: true}, {Right: true}, {Drop: 1}}
	k.out.Grid("", columns, rows)
	if k.out.Level == ui.Verbose {
		k.tellTotals(totals)
	} else if len(totals) > 0 {
		k.out.Sentence("Largest: %s", largest(totals))
	}
	if total.Saved > 0 {
		k.out.Sentence("Sharing packages saves %s", ui.Size(total.Saved))
	}
	if plan.Freed > 0 {
		k.out.Sentence("larder cache prune would free %s", ui.Size(plan.Freed))
	}
}

// tellTotals prints all providers, the largest first.
func (k *targetCache) tellTotals(totals []providerTotal) {
	rows := make([]ui.Row, len(totals))
	for i, t := range totals {
		rows[i].Cells = []ui.Span{{Text: t.name, Paint: ui.Bold}, {Text: ui.Size(t.Size)}, {Text: strconv.Itoa(t.Versions)}, {Text: strconv.Itoa(t.Packages)}}
	}
	k.out.Grid("", []ui.Column{{Head: "PROVIDER", Shorten: true}, {Head: "SIZE", Right: true}, {Head: "VERSIONS", Right: true}, {Head: "PACKAGES", Right: true}}, rows)
}

// largest lists the providers that use the most space: "hashicorp/aws 19.8 GB (31
// versions), … and 9 more".
func largest(totals []providerTotal) string {
	var names []string
	for _, t := range totals {
		names = append(names, fmt.Sprintf("%s %s (%s)", t.name, ui.Size(t.Size), ui.Count(t.Versions, "version")))
	}
	return ui.Some(names, 3)
}

// totalsOf adds up entries by provider, the largest first.
func (k *targetCache) totalsOf(entries []cachedir.Entry) []providerTotal {
	var totals []providerTotal
	var last cachedir.Entry
	for _, e := range entries { // sorted by provider and version
		if len(totals) == 0 || e.ID.Provider != last.ID.Provider {
			totals = append(totals, providerTotal{Provider: e.ID.Provider.String(), name: k.out.Name(e.ID.Provider)})
			last = cachedir.Entry{}
		}
		t := &totals[len(totals)-1]
		t.Packages++
		t.Size += e.Size
		if e.ID.Version != last.ID.Version {
			t.Versions++
		}
		last = e
	}
	slices.SortStableFunc(totals, func(a, b providerTotal) int { return cmp.Compare(b.Size, a.Size) })
	return totals
}
