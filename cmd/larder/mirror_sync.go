package main

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
)

func mirrorSyncCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "sync",
		Usage:     "make a directory a mirror, or bring it up to date",
		ArgsUsage: "DIR [FLAG...] [ADDRESS[@CONSTRAINT]...]",
		Description: "Takes what is locked, else the newest version that matches. Without addresses\n" +
			"and --from, that is for the root module here. Only what DIR lacks is fetched,\n" +
			"from where the CLI configuration says; nothing is removed. DIR is a filesystem\n" +
			"mirror and, served by any web server, a network mirror.",
		Flags: fillFlags(
			&cli.BoolFlag{Name: "unpacked", Usage: "lay packages out as directories; no network mirror then"},
			dryRunFlag("tell what would be fetched, and write nothing"),
		),
		Action: func(c *cli.Context) error { return mirrorSync(c, out) },
	}
}

// mirrorSync opens the mirror, and so locks it, before any source is asked: two runs
// side by side must not fetch the same packages.
func mirrorSync(c *cli.Context, out *ui.Output) error {
	f, err := newFilling(c, out)
	if err != nil {
		return err
	}
	typed, others, err := f.pick(target{"mirror sync", "the directory of the mirror", f.mayBeMirror}, c.Args().Slice())
	if err != nil {
		return err
	}
	if err := f.take(others); err != nil {
		return err
	}
	dir := absolute(f.dir, typed)
	m, err := f.root(c.Context, f.dir, out)
	if err != nil {
		return err
	}
	if err := m.noCache(dir); err != nil {
		return err
	}
	b, err := m.openMirror(c.Context, dir, builder.Options{Unpacked: c.Bool("unpacked"), ReadOnly: f.flags.dryRun})
	if err != nil {
		return err
	}
	return f.runMirror(c.Context, b)
}

// mayBeMirror reports whether something may be a mirror that is to be brought up to date.
// Where root modules are searched for, it must look like one.
func (f *filling) mayBeMirror(path string, info os.FileInfo) bool {
	if !info.IsDir() || isRootModule(path) {
		return false
	}
	entries, err := os.ReadDir(path)
	return err != nil || !f.flags.recursive || len(entries) == 0 || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() == ".larder" || e.IsDir() && strings.Contains(e.Name(), ".") && e.Name()[0] != '.' // a host's
	})
}
