package main

import (
	"errors"
	"fmt"
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
			writeConfigFlag(),
			dryRunFlag("show what would be fetched"),
		),
		Action: func(c *cli.Context) error { return mirrorSync(c, out) },
	}
}

// mirrorSync opens and locks the mirror before any request, so that two concurrent runs don't
// download the same packages. It creates no mirror if no provider is required.
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
	config, err := m.newMirrorConfig(c, dir)
	if err != nil {
		return err
	}
	isNew := false
	err = f.runMirror(c.Context, func() (*builder.Builder, error) {
		return m.openMirror(c.Context, dir, m.sharing(builder.Options{Unpacked: c.Bool("unpacked"), ReadOnly: f.flags.dryRun}))
	}, nil, func(b *builder.Builder, sum fillSummary) error {
		if b == nil || sum.empty() || out.JSON {
			return nil
		}
		if f.flags.dryRun {
			out.Conclude("%s", m.syncedText(sum))
			return nil
		}
		total, err := totalOf(c.Context, b)
		if err == nil {
			out.Conclude("%s. %s", m.syncedText(sum), total.text(dir))
		}
		isNew = total.packages > 0 && total.packages == sum.Fetched
		return err
	})
	if f.empty || f.flags.dryRun || err != nil && config.path != "" {
		return err
	}
	return errors.Join(err, m.finish(config, isNew))
}

// syncedText describes what was done.
func (m *rootModule) syncedText(sum fillSummary) string {
	had := sum.Packages - sum.Fetched - sum.Planned
	text := "Added " + ui.Count(sum.Fetched, "package")
	switch {
	case m.flags.dryRun:
		text = "Would add " + ui.Count(sum.Planned, "package")
	case sum.Bytes > 0:
		text += " (" + ui.Fetched(sum.Bytes, m.out.Elapsed()) + ")"
	}
	if sum.Fetched+sum.Planned == 0 {
		text = "Nothing to add"
	}
	text += there(had)
	if sum.Missing > 0 {
		text += fmt.Sprintf("; %d not available for the platform", sum.Missing)
	}
	if sum.Failed > 0 {
		text += fmt.Sprintf("; %d failed", sum.Failed)
	}
	return text
}

// mayBeMirror reports whether path may be a mirror to update. With --recursive, it must look
// like a mirror.
func (f *filling) mayBeMirror(path string, info os.FileInfo) bool {
	if !info.IsDir() || isRootModule(path) {
		return false
	}
	entries, err := os.ReadDir(path)
	return err != nil || !f.flags.recursive || len(entries) == 0 || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() == ".larder" || e.IsDir() && strings.Contains(e.Name(), ".") && e.Name()[0] != '.' // directory of a host
	})
}
