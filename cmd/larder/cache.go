package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

func cacheCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:        "cache",
		Category:    forCache,
		Usage:       "list, verify, repair and prune the plugin cache",
		Description: "Works on any plugin cache, while other processes install from it.",
		Subcommands: []*cli.Command{
			cachePathCommand(out), cacheListCommand(out), cacheStatsCommand(out),
			cacheVerifyCommand(out), cacheRepairCommand(out), cachePruneCommand(out),
			cacheKeyCommand(out), cacheExportCommand(out), cacheImportCommand(out), cacheForgetCommand(out),
		},
	}
}

// A targetCache is the plugin cache of a cache command.
type targetCache struct {
	*rootModule
	path  string
	cache *cachedir.Dir // nil if it does not exist
}

// findCache returns the path of the cache. It neither creates nor opens the cache.
func findCache(c *cli.Context, out *ui.Output) (*targetCache, error) {
	m, err := here(c, out)
	switch {
	case err != nil:
		return nil, err
	case m.flags.noCache:
		return nil, usageError{errors.New("--no-cache leaves no cache to look after")}
	case m.cacheRoot() == "":
		return nil, errNoPlace
	}
	return &targetCache{rootModule: m, path: m.cacheRoot()}, nil
}

// openCache opens the cache if it exists, and otherwise prints that there is none. It opens
// the cache read-only unless the command changes it.
func openCache(c *cli.Context, out *ui.Output, changes bool) (*targetCache, error) {
	k, err := findCache(c, out)
	if err != nil {
		return nil, err
	}
	k.flags.readOnly = k.flags.readOnly || !changes
	if _, err := os.Stat(k.path); errors.Is(err, fs.ErrNotExist) {
		out.Say("the plugin cache %s does not exist yet", k.path)
		return k, nil
	}
	if err := checkCache(k.path); err != nil {
		return k, err
	}
	opts, err := k.cacheOptions()
	if err != nil {
		return k, err
	}
	opts.Shared = k.engineCache()
	k.cache, err = k.openCache(k.path, opts)
	return k, err
}

// checkCache refuses a directory that is not a plugin cache: it has files, and neither
// records of Larder nor anything at the depth of a package. Its files would be foreign ones,
// which larder cache repair moves away.
func checkCache(path string) error {
	entries, _ := os.ReadDir(path) // opening the cache reports an error
	if _, err := os.Lstat(filepath.Join(path, ".larder")); err == nil || len(entries) == 0 || hasBelow(path, "*/*/*/*_*") {
		return nil
	}
	return sources.WithHint(fmt.Errorf("%s is not a plugin cache: it contains other files and no packages", path), "name the plugin cache with --cache, or use an empty directory")
}

// rootsFlag is the flag of commands that need the root modules that use the cache.
func rootsFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: selectionFlags, Name: "roots", Usage: "also search `DIR` for root modules"}
}

// use returns which root modules use the cache: the registered ones, those with views, and those
// found in the directories of the flag.
func (k *targetCache) use(c *cli.Context) (cachedir.ListOptions, error) {
	opts := cachedir.ListOptions{Locked: selections, Proofs: k.out.JSON}
	var err error
	if opts.Roots, _, err = viewUsers(k.machine); err != nil {
		return opts, err
	}
	for _, dir := range c.StringSlice("roots") {
		found, err := k.findRoots(c.Context, dir)
		if err != nil {
			return opts, err
		}
		opts.Roots = append(opts.Roots, found...)
	}
	return opts, nil
}

// findRoots searches a directory for root modules that an engine or larder has
// initialized. Root modules with an installation by larder are registered in the cache, and
// need no search.
func (k *targetCache) findRoots(ctx context.Context, dir string) ([]cachedir.Root, error) {
	k.out.Detail("looking for root modules in %s", dir)
	found, err := cachedir.FindRoots(ctx, absolute(k.dir, dir))
	if err == nil && len(found) == 0 {
		k.out.Warn("there is no root module in %s or below that has been initialised", dir)
	}
	return found, err
}

// selections returns the versions that the lock file in dir selects.
func selections(dir string) (cachedir.Selections, error) {
	file, ds := lockfile.Read(filepath.Join(dir, lockfile.Name))
	if err := ds.Err(); err != nil {
		return nil, err
	}
	selected := cachedir.Selections{}
	for _, e := range file.Entries() {
		selected[e.Provider] = e.Version
	}
	return selected, nil
}

// cachedPackage is a package in the cache, in JSON.
type cachedPackage struct {
	ui.PackageID
	Size   int64    `json:"size"`
	Freed  int64    `json:"freed"`
	Used   string   `json:"used,omitempty"`
	Roots  []string `json:"roots"`
	Linked bool     `json:"linked"`
	ui.Verification
	Changed  bool   `json:"changed,omitempty"`
	Evidence bool   `json:"evidence"`
	H1       string `json:"h1,omitempty"`
	Origin   string `json:"origin,omitempty"`
	Target   string `json:"target,omitempty"`
}

// cached returns an entry of the cache for JSON.
func cached(e cachedir.Entry) cachedPackage {
	p := cachedPackage{
		PackageID: ui.InJSON(e.ID), Size: e.Size, Freed: e.Freed, Roots: append([]string{}, e.Roots...), Linked: e.Linked,
		Changed: e.Changed, Evidence: e.Evidence, H1: string(e.H1), Origin: e.Origin, Target: e.Target, Verification: ui.VerificationOf(e.Report),
	}
	if !e.Used.IsZero() {
		p.Used = e.Used.UTC().Format("2006-01-02T15:04:05Z")
	}
	return p
}

// packageColumns are the columns of tables of packages, up to the time. Its header is the
// argument.
func packageColumns(time string) []ui.Column {
	return []ui.Column{
		{Head: "PROVIDER", Shorten: true}, {Head: "VERSION"}, {Head: "PLATFORM", Drop: 1},
		{Head: "SIZE", Right: true}, {Head: time, Drop: 5},
	}
}

// cells returns the cells of packageColumns for a package in the cache.
func (k *targetCache) cells(e cachedir.Entry) []ui.Span {
	return packageCells(k.out, e.ID, e.Size, e.Used)
}

// packageCells returns the cells of packageColumns for a package.
func packageCells(out *ui.Output, id sources.PackageID, size int64, at time.Time) []ui.Span {
	return []ui.Span{
		{Text: out.Name(id.Provider), Paint: ui.Bold}, {Text: id.Version.String()}, {Text: id.Platform.String()},
		{Text: ui.Size(size)}, {Text: ui.Since(at, time.Now()), Paint: ui.Faint},
	}
}

// listCache lists the cache, if it exists.
func listCache(c *cli.Context, out *ui.Output, adjust func(*cachedir.ListOptions)) (*targetCache, *cachedir.Listing, error) {
	k, err := openCache(c, out, false)
	if err != nil || k.cache == nil {
		return k, nil, err
	}
	use, err := k.use(c)
	if err != nil {
		return k, nil, err
	}
	if adjust != nil {
		adjust(&use)
	}
	listing, err := k.cache.List(c.Context, use)
	if err != nil {
		return k, nil, err
	}
	for _, err := range listing.Unclear {
		out.Warn("%v", err)
	}
	return k, listing, nil
}

// besides describes the contents of the cache other than packages, records and evidence.
func (k *targetCache) besides(u cachedir.Usage) {
	for _, row := range usageRows(u) {
		if row.hint != "" && row.Count > 0 {
			k.out.Say("%s: %d, %s (%s)", row.Kind, row.Count, ui.Size(row.Bytes), row.hint)
		}
	}
}

// usageRow is one kind of cache contents other than packages, in JSON.
type usageRow struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`

	hint string // empty if the kind needs no explanation
}

// usageRows returns all kinds of cache contents other than packages, in display order.
func usageRows(u cachedir.Usage) []usageRow {
	row := func(kind string, a cachedir.Amount, hint string) usageRow {
		return usageRow{kind, a.Count, a.Bytes, hint}
	}
	rows := []usageRow{
		row("evidence", u.Evidence, ""),
		row("records", u.Records, ""),
		row("in progress", u.Working, "in use by other larder processes"),
		row("archives", u.Archives, "of recent downloads; larder cache prune removes them"),
		row("interrupted", u.Interrupted, "partial downloads, resumable"),
		row("abandoned", u.Abandoned, "partial downloads; larder cache prune removes them"),
		row("leftover", u.Leftover, "from killed processes; larder cache prune removes it"),
		row("set aside", u.Aside, "damaged and changed files; larder cache prune --aside removes them"),
	}
	if u.Others.Count > 0 {
		rows = append(rows, row("of others", u.Others, "temporary files and downloads; only the users who own them can remove them"))
	}
	return rows
}

// verifyCache verifies the cache, if it exists, and shows its progress.
func verifyCache(c *cli.Context, out *ui.Output, repairs bool) (*targetCache, *cachedir.Verification, error) {
	k, err := openCache(c, out, repairs)
	if err != nil || k.cache == nil {
		return k, nil, err
	}
	v, err := ui.Work(out, func(report ui.Report) (*cachedir.Verification, error) {
		return k.cache.Verify(c.Context, cachedir.VerifyOptions{Report: report})
	})
	return k, v, err
}

// verifySummary is the summary of a verification, in JSON.
type verifySummary struct {
	Packages int   `json:"packages"` // read
	Unknown  int   `json:"unknown"`  // packages without a hash to compare with
	Bytes    int64 `json:"bytes"`
	Problems int   `json:"problems"`
}

// sum records the totals and returns them as text: "212 packages (38.9 GB read in 31s)".
func (k *targetCache) sum(v *cachedir.Verification) (verifySummary, string) {
	damaged := map[sources.PackageID]bool{}
	for _, f := range v.Findings {
		if f.Package != nil {
			damaged[*f.Package] = true
		}
	}
	all := verifySummary{len(damaged) + len(v.Packages), v.Unknown, v.Bytes, len(v.Findings)}
	return all, fmt.Sprintf("%s (%s read in %s)", ui.Count(all.Packages, "package"), ui.Size(v.Bytes), ui.Took(k.out.Elapsed()))
}

// tellUnknown prints the number of packages that have no recorded hash.
func (k *targetCache) tellUnknown(v *cachedir.Verification) {
	if v.Unknown > 0 {
		k.out.Say("%s had no record to compare with", ui.Count(v.Unknown, "package"))
	}
	k.besides(v.Besides)
}
