package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
)

func cacheListCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:      "list",
		Usage:     "list the packages in the plugin cache",
		ArgsUsage: "[PATTERN...] [FLAG...]",
		Description: "Tells of each package its size on disk, when it was last used, by how many\n" +
			"root modules, and how well it is vouched for. A PATTERN is an address in which\n" +
			"* stands for any host, namespace or type.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "sort", Usage: "by `WHAT`: address, size, used or roots", Value: "address"},
			&cli.BoolFlag{Name: "unused", Usage: "only what no known root module uses"},
			&cli.StringFlag{Name: "older-than", Usage: "only what has not been used for an `AGE`, such as 30d"},
			&cli.StringFlag{Name: "platform", Usage: "only packages for `OS_ARCH`"},
			rootsFlag(),
		},
		Action: func(c *cli.Context) error { return cacheList(c, out) },
	}
}

func cacheList(c *cli.Context, out *output) error {
	wanted, err := readFilter(c)
	if err != nil {
		return err
	}
	order, ok := orders[c.String("sort")]
	if !ok {
		return usageError{fmt.Errorf("--sort is address, size, used or roots, not %q", c.String("sort"))}
	}
	k, listing, err := listCache(c, out)
	if err != nil || k.cache == nil {
		return err
	}
	entries := slices.DeleteFunc(listing.Entries, func(e cachedir.Entry) bool { return !wanted.includes(e) })
	slices.SortStableFunc(entries, order)
	var rows [][]string
	memo := signerMemo{rootModule: k.rootModule}
	by := make([]signature, len(entries))
	for i, e := range entries {
		rows = append(rows, []string{e.ID.String(), humanSize(e.Size), since(e.Used, time.Now()), users(e), e.Verdict.String()})
		if out.json || out.level == verbose {
			by[i] = memo.of(sources.Stored{ID: e.ID, ZH: e.ZH, Signed: k.cache.EvidenceOf(e)})
			rows[i] = append(rows[i], by[i].long())
		}
	}
	for i, line := range columns(rows) {
		out.result("cached", cached(entries[i], by[i]), "%s", line)
	}
	if n := len(listing.Findings); n > 0 {
		out.say(normal, "%s in it that should not be there; see larder cache verify", count(n, "thing"))
	}
	usage, err := k.cache.Remains(c.Context)
	if err != nil {
		return err
	}
	k.besides(usage)
	return nil
}

// besides says what the cache holds besides packages, records and evidence.
func (k *keeper) besides(u cachedir.Usage) {
	for _, row := range usageRows(u) {
		if row.hint != "" && row.Count > 0 {
			k.out.say(normal, "%s: %d, %s (%s)", row.Kind, row.Count, humanSize(row.Bytes), row.hint)
		}
	}
}

// usageRow is what the cache holds of one kind besides packages, in JSON.
type usageRow struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`

	hint string // what to know of it; empty where it goes without saying
}

func usageRows(u cachedir.Usage) []usageRow {
	row := func(kind string, a cachedir.Amount, hint string) usageRow {
		return usageRow{kind, a.Count, a.Bytes, hint}
	}
	return []usageRow{
		row("evidence", u.Evidence, ""),
		row("records", u.Records, ""),
		row("in progress", u.Working, "other larder processes are using it"),
		row("interrupted", u.Interrupted, "partial downloads, resumable"),
		row("abandoned", u.Abandoned, "partial downloads; larder cache prune removes them"),
		row("leftover", u.Leftover, "from killed processes; larder cache prune removes it"),
		row("set aside", u.Aside, "by larder cache repair; larder cache prune --aside removes it"),
	}
}

func users(e cachedir.Entry) string {
	switch {
	case len(e.Roots) > 0:
		return count(len(e.Roots), "root module")
	case e.Linked:
		return "linked"
	}
	return "unused"
}

// listCache lists the cache, if there is one.
func listCache(c *cli.Context, out *output) (*keeper, *cachedir.Listing, error) {
	k, err := openCache(c, out, false)
	if err != nil || k.cache == nil {
		return k, nil, err
	}
	use, err := k.use(c)
	if err != nil {
		return k, nil, err
	}
	listing, err := k.cache.List(c.Context, use)
	if err != nil {
		return k, nil, err
	}
	for _, err := range listing.Unclear {
		out.warn("%v", err)
	}
	return k, listing, nil
}

// orders are how packages may be sorted.
var orders = map[string]func(a, b cachedir.Entry) int{
	"address": func(cachedir.Entry, cachedir.Entry) int { return 0 }, // as they are already
	"size":    func(a, b cachedir.Entry) int { return cmp.Compare(b.Size, a.Size) },
	"used":    func(a, b cachedir.Entry) int { return a.Used.Compare(b.Used) },
	"roots":   func(a, b cachedir.Entry) int { return cmp.Compare(len(a.Roots), len(b.Roots)) },
}

// A filter says which packages are of interest.
type filter struct {
	patterns []sources.Pattern
	platform sources.Platform
	age      time.Duration
	unused   bool
}

func readFilter(c *cli.Context) (f filter, err error) {
	f.unused = c.Bool("unused")
	for _, arg := range c.Args().Slice() {
		p, err := sources.ParsePattern(arg, sources.Terraform)
		if err != nil {
			return f, usageError{err}
		}
		f.patterns = append(f.patterns, p)
	}
	if name := c.String("platform"); name != "" {
		platforms, err := parsePlatforms([]string{name})
		if err != nil {
			return f, err
		}
		f.platform = platforms[0]
	}
	f.age, err = ageFlag(c, "older-than")
	return f, err
}

func (f filter) includes(e cachedir.Entry) bool {
	matches := func(p sources.Pattern) bool { return p.Match(e.ID.Provider) }
	switch {
	case len(f.patterns) > 0 && !slices.ContainsFunc(f.patterns, matches):
		return false
	case f.platform.OS != "" && f.platform != e.ID.Platform:
		return false
	case f.unused && e.InUse():
		return false
	}
	return f.age == 0 || time.Since(e.Used) > f.age
}

// ageFlag is the value of a flag that is an age, 0 if it is not set.
func ageFlag(c *cli.Context, name string) (time.Duration, error) {
	if !c.IsSet(name) {
		return 0, nil
	}
	age, err := parseAge(c.String(name))
	if err != nil {
		return 0, usageError{fmt.Errorf("--%s %s: %w", name, c.String(name), err)}
	}
	return age, nil
}

func cacheStatsCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:        "stats",
		ArgsUsage:   "[FLAG...]",
		Usage:       "add up what the plugin cache takes, by provider",
		Description: "Tells too what pruning would free, and what root modules save by sharing.",
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

func cacheStats(c *cli.Context, out *output) error {
	if err := noArguments(c); err != nil {
		return err
	}
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
		if row.Count > 0 && (out.json || row.hint != "") {
			out.result("usage", row, "%-12s %6d  %s  %s", row.Kind, row.Count, humanSize(row.Bytes), row.hint)
		}
	}
	totals := totalsOf(listing.Entries)
	width, _ := terminalSize(out.stdout)
	for i, line := range columns(totalRows(totals, width)) {
		out.result("provider", totals[i], "%s", line)
	}
	out.result("total", struct {
		Packages int   `json:"packages"`
		Roots    int   `json:"roots"`
		Size     int64 `json:"size"`
		Prunable int64 `json:"prunable"`
		Saved    int64 `json:"saved"`
	}{len(listing.Entries), len(listing.Roots), plan.Size, plan.Freed, listing.Saved},
		"%s in %s, known to %s; pruning would free %s, sharing saves %s",
		humanSize(plan.Size), count(len(listing.Entries), "package"), count(len(listing.Roots), "root module"),
		humanSize(plan.Freed), humanSize(listing.Saved))
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
		row := []string{t.Provider, humanSize(t.Size), count(t.Versions, "version"), count(t.Packages, "package")}
		if room > 0 && totals[0].Size > 0 {
			row = append(row, strings.Repeat("█", int(int64(room)*t.Size/totals[0].Size)))
		}
		rows = append(rows, row)
	}
	return rows
}
