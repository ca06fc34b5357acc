package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer"
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
			"mirror and, served by any web server, a network mirror. Once this is done,\n" +
			"everything is on the disk. Exit status: 0 done, 1 something is missing.",
		Flags: append(wantedFlags(),
			&cli.BoolFlag{Name: "unpacked", Usage: "lay packages out as directories; no network mirror then"},
			&cli.BoolFlag{Name: "strict", Usage: "fail if a version lacks a package for a platform"},
			&cli.BoolFlag{Name: "require-signed", Usage: "refuse packages that are less than signed"},
			trustKeyFlag(),
			&cli.BoolFlag{Name: "dry-run", Usage: "tell what would be fetched, and write nothing"},
		),
		Action: func(c *cli.Context) error { return mirrorSync(c, out) },
	}
}

// A syncing is what the flags of mirror sync ask for.
type syncing struct {
	*wanted
	to            *builder.Builder
	fill          installer.FillOptions
	requireSigned bool
	slots         installer.Slots
}

func mirrorSync(c *cli.Context, out *ui.Output) error {
	if err := checkSyncDir(c.Args().First()); err != nil {
		return usageError{err}
	}
	w, err := readWanted(c, c.Args().Tail())
	if err != nil {
		return err
	}
	if w.session, err = newSession(c, out); err != nil {
		return err
	}
	s := &syncing{
		wanted: w, fill: installer.FillOptions{Strict: c.Bool("strict"), DryRun: c.Bool("dry-run")},
		requireSigned: c.Bool("require-signed"), slots: installer.NewSlots(w.flags.jobs),
	}
	dir := absolute(w.dir, c.Args().First())
	here, err := w.root(c.Context, w.dir, out)
	if err != nil {
		return err
	}
	if err := here.noCache(dir); err != nil {
		return err
	}
	s.to, err = here.openMirror(c, dir, builder.Options{Unpacked: c.Bool("unpacked"), ReadOnly: s.fill.DryRun})
	if err != nil {
		return err
	}
	return errors.Join(s.run(c.Context), s.to.Close())
}

// checkSyncDir refuses what is no directory that anybody would want: a variable
// that is not set, or a provider.
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

// run syncs what is wanted. The index is brought up to date whatever failed.
func (s *syncing) run(ctx context.Context) error {
	supplies, readErr := s.read(ctx)
	var usage usageError
	if errors.As(readErr, &usage) {
		return readErr
	}
	filled, errs := make([][]installer.Filled, len(supplies)), make([]error, len(supplies))
	var wg sync.WaitGroup
	for i, supply := range supplies {
		wg.Go(func() {
			filled[i], errs[i] = s.take(ctx, supply)
			errs[i] = supply.explain(errs[i])
		})
	}
	wg.Wait()
	errs = append(errs, readErr)
	if !s.fill.DryRun {
		errs = append(errs, s.to.Finish(ctx))
	}
	showFilled(s.out, merge(filled))
	return errors.Join(errs...)
}

// take brings what is wanted from one supply into the mirror.
func (s *syncing) take(ctx context.Context, from *supply) ([]installer.Filled, error) {
	source, err := from.source(ctx, nil)
	if err != nil {
		return nil, err
	}
	fetcher := installer.NewFetcher(fsmirror.Nearby(source, from.nearby()), s.to, from.client, installer.Options{
		Engine:        from.config.Engine,
		Platforms:     s.platforms,
		Slots:         s.slots,
		RequireSigned: s.requireSigned,
		Trust:         from.trustOptions(),
		Memory:        from.memory(),
		Report:        s.out.Event,
	})
	selected, chooseErr := fetcher.Select(ctx, from.wants, s.versions)
	filled, err := fetcher.Fill(ctx, selected, s.fill)
	for i := range filled {
		if filled[i].Outcome.How == installer.FromStore {
			filled[i].Outcome.How = alreadyThere
		}
	}
	return filled, errors.Join(chooseErr, err)
}

// alreadyThere is how a mirror came by a package that it had.
const alreadyThere installer.How = "already there"

// nearby are the mirrors on this machine, whether or not anything is installed
// from them.
func (m *rootModule) nearby() []*fsmirror.Mirror {
	var near []*fsmirror.Mirror
	for _, method := range m.config.Methods {
		if method.Kind == cliconfig.FilesystemMirror {
			near = append(near, m.mirror(method.Path))
		}
	}
	for _, dir := range m.config.ImpliedDirs() {
		near = append(near, m.mirror(dir))
	}
	return near
}
