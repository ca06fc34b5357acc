package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func cacheListCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "list",
		Usage:     "list the packages in the plugin cache",
		ArgsUsage: "[PATTERN...] [FLAG...]",
		UsageText: "larder cache list hashicorp/* --sort size",
		Description: "Shows size, last use, users and verification result of each package. In a PATTERN,\n" +
			"such as aws or */aws, * stands for any name.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "sort", Usage: "`ORDER` order: " + ui.List("or", orderNames), Value: orderNames[0]},
			&cli.BoolFlag{Category: selectionFlags, Name: "unused", Usage: "packages that no known root module uses"},
			&cli.StringFlag{Category: selectionFlags, Name: "older-than", Usage: "packages unused for an `AGE`, such as 30d"},
			platformsFlag("packages for these platforms"),
			rootsFlag(),
		},
		Action: func(c *cli.Context) error { return cacheList(c, out) },
	}
}

// cacheList lists packages. Who signed them is verified only where it is shown, with
// --json or --verbose: that takes longer than everything else.
func cacheList(c *cli.Context, out *ui.Output) error {
	wanted, err := readFilter(c)
	if err != nil {
		return err
	}
	if err := oneOf("sort", c.String("sort"), orderNames); err != nil {
		return err
	}
	k, listing, err := listCache(c, out)
	if err != nil || k.cache == nil {
		return err
	}
	var ids []sources.PackageID
	for _, e := range listing.Entries {
		ids = append(ids, e.ID)
	}
	unmatched(out, wanted.patterns, ids)
	entries := slices.DeleteFunc(listing.Entries, func(e cachedir.Entry) bool { return !wanted.includes(e) })
	slices.SortStableFunc(entries, orders[c.String("sort")])
	var rows [][]string
	memo := signerMemo{rootModule: k.rootModule}
	by := make([]ui.Signature, len(entries))
	for i, e := range entries {
		rows = append(rows, []string{e.ID.String(), ui.Size(e.Size), ui.Since(e.Used, time.Now()), users(e), e.Verdict.String()})
		if out.JSON || out.Level == ui.Verbose {
			by[i] = memo.of(sources.Stored{ID: e.ID, ZH: e.ZH, Signed: k.cache.EvidenceOf(e)})
			rows[i] = append(rows[i], by[i].Long())
		}
	}
	out.Table("cached", rows, func(i int) any { return cached(entries[i], by[i]) })
	if n := len(listing.Findings); n > 0 {
		out.Say("%s in it that should not be there; see larder cache verify", ui.Count(n, "thing"))
	}
	usage, err := k.cache.Remains(c.Context)
	if err != nil {
		return err
	}
	k.besides(usage)
	return nil
}

// users says what uses a package: known root modules, or else any directory that shares
// its files by hardlinks.
func users(e cachedir.Entry) string {
	switch {
	case len(e.Roots) > 0:
		return ui.Count(len(e.Roots), "root module")
	case e.Linked:
		return "linked"
	}
	return "unused"
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
	patterns  []pattern
	platforms []sources.Platform // empty means all
	age       time.Duration
	unused    bool
}

// readFilter reads the arguments and flags that select packages.
func readFilter(c *cli.Context) (f filter, err error) {
	f.unused = c.Bool("unused")
	if f.patterns, err = readPatterns(c.Args().Slice()); err != nil {
		return f, err
	}
	if f.platforms, err = platforms(c); err != nil {
		return f, err
	}
	f.age, err = age(c)
	return f, err
}

// includes reports whether the filter selects a package.
func (f filter) includes(e cachedir.Entry) bool {
	switch {
	case !selected(f.patterns, e.ID):
		return false
	case len(f.platforms) > 0 && !slices.Contains(f.platforms, e.ID.Platform):
		return false
	case f.unused && e.InUse():
		return false
	}
	return f.age == 0 || time.Since(e.Used) > f.age
}
