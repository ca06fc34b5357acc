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
		Name:        "sync",
		Usage:       "add packages to a mirror, created if missing",
		ArgsUsage:   "DIR [PATH | ADDRESS[@VERSION]]... [FLAG...]",
		UsageText:   "larder mirror sync ./mirror hashicorp/random@3.7.2",
		Description: "Takes the locked version, else the newest one allowed. Removes nothing.",
		Flags: fillFlags(
			&cli.BoolFlag{Name: "unpacked", Usage: "write directories; not for network mirrors"},
			dryRunFlag("show what would be fetched"),
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
