package main

import (
	"cmp"
	"slices"
	"strings"
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

// cacheList lists packages. It hashes those whose files have changed since they were recorded.
func cacheList(c *cli.Context, out *ui.Output) error {
	wanted, err := readFilter(c)
	if err != nil {
		return err
	}
	if err := oneOf("--sort", c.String("sort"), orderNames); err != nil {
		return err
	}
	k, listing, err := listCache(c, out, func(use *cachedir.ListOptions) { use.Proofs, use.Hash = true, true })
	if err != nil || k.cache == nil {
		return err
	}
	var ids []sources.PackageID
	for _, e := range listing.Entries {
		ids = append(ids, e.ID)
	}
	unmatched(out, wanted.patterns, ids)
	entries := slices.DeleteFunc(slices.Clone(listing.Entries), func(e cachedir.Entry) bool { return !wanted.includes(e) })
	slices.SortStableFunc(entries, orders[c.String("sort")])
	rows, size := make([]ui.Row, len(entries)), int64(0)
	for i, e := range entries {
		by := ui.Span{Paint: ui.Faint}
		if out.Level == ui.Verbose {
			by.Text = ui.VerificationOf(e.Report).Long()
		}
		rows[i] = ui.Row{Value: cached(e), Cells: append(k.cells(e), ui.Span{Text: users(e)}, ui.Span{Text: verifiedAs(e)}, by)}
		size += e.Size
	}
	out.Grid("cached", append(packageColumns("LAST USED"), ui.Column{Head: "USED BY", Drop: 3}, ui.Column{Head: "VERIFIED AS", Brief: ui.WithoutKey, Drop: 2}, ui.Column{Drop: 4}), rows)
	out.Summary(struct {
		Packages int   `json:"packages"`
		Size     int64 `json:"size"`
	}{len(entries), size})
	if len(entries) == 0 {
		k.tellNone(c, listing)
	} else {
		out.Say("%s, %s", ui.Count(len(entries), "package"), ui.Size(size))
	}
	if n := len(listing.Findings); n > 0 {
		out.WarnHint("larder cache verify lists them", "%s in the plugin cache", ui.Count(n, "problem"))
	}
	usage, err := k.cache.Remains(c.Context)
	if err != nil {
		return err
	}
	k.besides(usage)
	return nil
}

// tellNone prints why the list is empty. Patterns without a match already had a warning.
func (k *targetCache) tellNone(c *cli.Context, listing *cachedir.Listing) {
	if len(listing.Entries) == 0 {
		k.out.Say("the plugin cache %s is empty", k.path)
		return
	}
	what := "no packages"
	if c.IsSet("platform") {
		what += " for " + strings.Join(c.StringSlice("platform"), ", ")
	}
	if c.IsSet("older-than") {
		what += " not used for " + c.String("older-than")
	}
	if c.Bool("unused") {
		what += " that are unused"
	}
	if what == "no packages" {
		return
	}
	k.out.Say("%s in the plugin cache, which has %s", what, ui.Count(len(listing.Entries), "package"))
}

// verifiedAs describes the verification result of a package.
func verifiedAs(e cachedir.Entry) string {
	if e.Changed {
		return ui.ChangedSince
	}
	return ui.VerifiedAs(e.Report)
}

// users describes the users of a package: known root modules, or else the directories that
// share its files by hard links.
func users(e cachedir.Entry) string {
	switch {
	case len(e.Roots) > 0:
		return ui.Count(len(e.Roots), "root module")
	case e.Linked:
		return "linked"
	}
	return "unused"
}

// orders are the sort orders of packages.
var orders = map[string]func(a, b cachedir.Entry) int{
	"address": func(cachedir.Entry, cachedir.Entry) int { return 0 }, // already sorted
	"size":    func(a, b cachedir.Entry) int { return cmp.Compare(b.Size, a.Size) },
	"used":    func(a, b cachedir.Entry) int { return a.Used.Compare(b.Used) },
	"roots":   func(a, b cachedir.Entry) int { return cmp.Compare(len(a.Roots), len(b.Roots)) },
}

// A filter selects packages.
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
