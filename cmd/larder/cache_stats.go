package main

import (
	"cmp"
	"slices"
	"strings"

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

// providerTotal is what the packages of one provider add up to.
type providerTotal struct {
	Provider string `json:"provider"`
	Packages int    `json:"packages"`
	Versions int    `json:"versions"`
	Size     int64  `json:"size"`
}

// cacheStats adds up the cache. What pruning would free is found out by planning it, so
// that both commands give the same number.
func cacheStats(c *cli.Context, out *ui.Output) error {
	k, listing, err := listCache(c, out)
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
	for _, row := range usageRows(plan.Usage) {
		if row.Count > 0 && (out.JSON || row.hint != "") {
			out.Result("usage", row, "%-12s %6d  %s  %s", row.Kind, row.Count, ui.Size(row.Bytes), row.hint)
		}
	}
	totals := totalsOf(listing.Entries)
	out.Table("provider", totalRows(totals, out.Width()), func(i int) any { return totals[i] })
	out.Result("total", struct {
		Packages int   `json:"packages"`
		Roots    int   `json:"roots"`
		Size     int64 `json:"size"`
		Prunable int64 `json:"prunable"`
		Saved    int64 `json:"saved"`
	}{len(listing.Entries), len(listing.Roots), plan.Size, plan.Freed, listing.Saved},
		"%s in %s, known to %s; pruning would free %s, sharing saves %s",
		ui.Size(plan.Size), ui.Count(len(listing.Entries), "package"), ui.Count(len(listing.Roots), "root module"),
		ui.Size(plan.Freed), ui.Size(listing.Saved))
	return nil
}

// totalsOf adds up entries, the largest provider first.
func totalsOf(entries []cachedir.Entry) []providerTotal {
	var totals []providerTotal
	var last cachedir.Entry
	for _, e := range entries { // sorted by provider and version
		if len(totals) == 0 || e.ID.Provider != last.ID.Provider {
			totals = append(totals, providerTotal{Provider: e.ID.Provider.String()})
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

// totalRows are the totals as they are shown: with bars where there is room for
// them in so many columns.
func totalRows(totals []providerTotal, width int) [][]string {
	const cells = 60 // for all but the bars, as a rule
	room := min(width-cells, 40)
	var rows [][]string
	for _, t := range totals {
		row := []string{t.Provider, ui.Size(t.Size), ui.Count(t.Versions, "version"), ui.Count(t.Packages, "package")}
		if room > 0 && totals[0].Size > 0 {
			row = append(row, strings.Repeat("█", int(int64(room)*t.Size/totals[0].Size)))
		}
		rows = append(rows, row)
	}
	return rows
}
