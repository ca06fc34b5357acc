package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
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
	if err := checkSyncDir(c.Args().First()); err != nil {
		return usageError{err}
	}
	f, err := newFilling(c, out, c.Args().Tail())
	if err != nil {
		return err
	}
	dir := absolute(f.dir, c.Args().First())
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
	return f.runMirror(c.Context, b, func(sum fillSummary) error { return m.tellSynced(c.Context, b, dir, sum) })
}

// tellSynced says what the mirror has now, and how to use it.
func (m *rootModule) tellSynced(ctx context.Context, b *builder.Builder, dir string, sum fillSummary) error {
	if sum.empty() || m.out.JSON {
		return nil
	}
	had := sum.Packages - sum.Fetched - sum.Planned
	text := "Added " + ui.Count(sum.Fetched, "package")
	switch {
	case m.flags.dryRun:
		text = "Would add " + ui.Count(sum.Planned, "package")
	case sum.Fetched > 0:
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
	if m.flags.dryRun {
		m.out.Conclude("%s", text)
		return nil
	}
	total, err := totalOf(ctx, b)
	if err != nil {
		return err
	}
	m.out.Conclude("%s. %s", text, total.text(dir))
	if total.packages > 0 {
		m.out.AtLast(func() { m.tellUse(dir) })
	}
	return nil
}

// checkSyncDir refuses what cannot be meant as a directory: an empty argument, most likely
// a variable that is not set, and the address of a provider.
func checkSyncDir(typed string) error {
	if typed == "" {
		return errors.New("mirror sync needs the directory of the mirror")
	}
	if address, _, ok := strings.Cut(typed, "@"); ok {
		if _, err := sources.ParseProvider(address, sources.Terraform); err == nil {
			err := fmt.Errorf("mirror sync needs the directory of the mirror first, and %s is a provider", typed)
			return sources.WithHint(err, "for a directory of that name, write ./ before it")
		}
	}
	return nil
}
