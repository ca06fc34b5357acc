package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir/export"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

func cacheExportCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write the packages that lock files select into a file",
		ArgsUsage: "FILE [PATH...] [FLAG...]",
		UsageText: "larder cache export cache.tar -R",
		Description: "FILE is a plain tar archive for larder cache import; - is standard output. The same\n" +
			"packages make the same file, and a FILE with these contents is kept. To compress:\n" +
			"larder cache export - | zstd > FILE",
		Flags: append(treeFlags(),
			&cli.BoolFlag{Name: "partial", Usage: "export what the cache has, if packages are missing"}),
		Action: func(c *cli.Context) error { return cacheExport(c, out) },
	}
}

// cacheExport writes the export to a temporary file and renames it, unless FILE is -. It
// first finds every required package: without --partial, an incomplete export is an error.
func cacheExport(c *cli.Context, out *ui.Output) error {
	file := c.Args().First()
	switch {
	case file == "":
		return usageError{errors.New("cache export needs one FILE, or - for standard output")}
	case file == "-" && out.JSON:
		return usageError{errors.New("--json and - as FILE both write to standard output")}
	}
	k, err := openCache(c, out, false)
	if err != nil {
		return err
	}
	if err := k.takeRoots(c.Args().Tail()); err != nil {
		return err
	}
	t, err := k.tree(c.Context)
	if err != nil {
		return err
	}
	return k.export(c.Context, t, file, c.Bool("partial"))
}

// export writes the packages that the tree requires to the file.
func (k *targetCache) export(ctx context.Context, t *tree, file string, partial bool) error {
	if k.cache != nil {
		release, err := k.cache.Use(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	packages, missing, err := k.collect(ctx, t)
	if err != nil {
		return err
	}
	if err := k.tellMissing(missing, partial); err != nil {
		return err
	}
	if file == "-" {
		return export.Write(ctx, k.out.Stdout, packages)
	}
	private, err := privateIn(packages)
	if err != nil {
		return err
	}
	size, changed, err := writeExport(ctx, absolute(k.dir, file), packages, private != "")
	if err != nil {
		return err
	}
	k.out.Private(file, private)
	rows := make([]ui.Row, len(packages))
	for i, s := range packages {
		rows[i] = ui.Row{
			Value: ui.OutcomeInJSON(installer.Outcome{Package: s, How: "exported"}),
			Cells: []ui.Span{{Text: k.out.Name(s.ID.Provider), Paint: ui.Bold}, {Text: s.ID.Version.String()}, {Text: s.ID.Platform.String()}, {Text: ui.VerifiedAs(s.Report)}},
		}
	}
	k.out.Grid("exported", []ui.Column{{Shorten: true}, {}, {}, {Drop: 1}}, rows)
	k.out.Summary(struct {
		File      string `json:"file"`
		Packages  int    `json:"packages"`
		Missing   int    `json:"missing"`
		Size      int64  `json:"size"`
		Unchanged bool   `json:"unchanged"`
	}{absolute(k.dir, file), len(packages), len(missing), size, !changed})
	did := "Wrote " + file
	if !changed {
		did = file + " is unchanged"
	}
	text := fmt.Sprintf("%s: %s, %s", did, ui.Count(len(packages), "package"), ui.Size(size))
	if len(missing) > 0 {
		text += fmt.Sprintf("; %d missing", len(missing))
	}
	k.out.Say("%s", text)
	return nil
}

// collect returns the packages in the cache that lock files select, and the reasons why
// others are missing.
func (k *targetCache) collect(ctx context.Context, t *tree) (packages []sources.Stored, missing []error, err error) {
	for _, r := range t.open {
		missing = append(missing, &sources.ProviderError{Provider: r.Provider, Err: errors.New("no version is locked")})
	}
	wanted := t.wanted()
	for _, id := range slices.SortedFunc(maps.Keys(wanted), sources.PackageID.Compare) {
		s, err := k.stored(ctx, id)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			missing = append(missing, err)
			continue
		}
		unmet := 0
		for _, l := range wanted[id] {
			if !l.allows(s) {
				err := fmt.Errorf("the package in the plugin cache differs from the one locked in %s", l.module)
				missing = append(missing, &sources.PackageError{ID: id, Err: err})
				unmet++
			}
		}
		if unmet < len(wanted[id]) {
			packages = append(packages, s)
		}
	}
	return packages, missing, nil
}

// stored is a package in the cache.
func (k *targetCache) stored(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	if k.cache == nil {
		return sources.Stored{}, &sources.PackageError{ID: id, Err: errNotCached}
	}
	s, err := k.cache.Get(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		err = &sources.PackageError{ID: id, Err: errNotCached}
	}
	return s, err
}

// errNotCached is the reason why a package is not exported.
var errNotCached = errors.New("not in the plugin cache")

// wanted returns the packages that lock files select, each with the root modules that
// select it.
func (t *tree) wanted() map[sources.PackageID][]lockedProvider {
	wanted := map[sources.PackageID][]lockedProvider{}
	for _, l := range t.locked {
		for _, platform := range t.platforms {
			id := sources.PackageID{Provider: l.Provider, Version: l.Version, Platform: platform}
			wanted[id] = append(wanted[id], l)
		}
	}
	return wanted
}

// allows reports whether a package matches a hash in the lock file, or the lock file has no
// hashes.
func (l lockedProvider) allows(s sources.Stored) bool {
	return !sources.AnyUsable(l.Hashes) || sources.MatchesAny(l.Hashes, s.H1, s.ZipH1, s.ZH)
}

// tellMissing prints the packages that cannot be exported. Without --partial it returns an
// error.
func (k *targetCache) tellMissing(missing []error, partial bool) error {
	if len(missing) == 0 {
		return nil
	}
	if partial {
		for _, err := range missing {
			k.out.Warn("%v", err)
		}
		return nil
	}
	err := fmt.Errorf("%s missing from the plugin cache; nothing was exported", ui.Count(len(missing), "package"))
	return errors.Join(append(missing, sources.WithHint(err, "larder prefetch fetches what is missing; --partial exports what is there"))...)
}

// privateIn returns the path of a file in the packages that not all users can read, or of
// the place that its package came from. It returns "" if there is none.
func privateIn(packages []sources.Stored) (string, error) {
	for _, s := range packages {
		private, err := disk.HiddenIn(s.Dir)
		if err != nil {
			return "", &sources.PackageError{ID: s.ID, Err: err}
		}
		if private == "" && !s.Public() && disk.Hidden(s.Dir) != 0 {
			private = s.Dir
		}
		if private != "" && !s.Public() {
			private = cmp.Or(s.Origin, private)
		}
		if private != "" {
			return private, nil
		}
	}
	return "", nil
}

// writeExport writes the export to path atomically, and returns its size in bytes. It keeps a file
// that is the same export already. Only this user may read a private one.
func writeExport(ctx context.Context, path string, packages []sources.Stored, private bool) (size int64, changed bool, err error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() { // such as a device, which must not be replaced
		return 0, false, fmt.Errorf("%s is there already, and is not a file", path)
	}
	in, err := disk.Open(filepath.Dir(path))
	if err != nil {
		return 0, false, err
	}
	defer in.Close()
	f, err := in.NewTemp(filepath.Base(path))
	if err != nil {
		return 0, false, err
	}
	defer f.Discard()
	if private {
		f.Hidden = 0o077
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := export.Write(ctx, buffered, packages); err != nil {
		return 0, false, err
	}
	if err := buffered.Flush(); err != nil {
		return 0, false, disk.Explain(err, "the export")
	}
	info, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	changed, err = f.CommitChanged(ctx, filepath.Base(path))
	return info.Size(), changed, err
}
