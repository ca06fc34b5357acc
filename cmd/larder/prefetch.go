package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

func prefetchCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:      "prefetch",
		Usage:     "fill the plugin cache, for any number of root modules",
		ArgsUsage: "[FLAG...] [ADDRESS[@CONSTRAINT]...]",
		Description: "Takes what is locked, else the newest version that matches. Without arguments\n" +
			"and --from, that is for the root module here. No working directory is touched.\n" +
			"Exit status: 0 all is there, 1 something could not be had, 2 used wrongly,\n" +
			"130 interrupted.",
		Flags: append(wantedFlags(),
			&cli.BoolFlag{Name: "strict", Usage: "fail if a version lacks a package for a platform"},
			&cli.BoolFlag{Name: "require-signed", Usage: "refuse packages that are less than signed"},
			trustKeyFlag(),
			&cli.BoolFlag{Name: "dry-run", Usage: "tell what would be fetched, and fetch nothing"},
		),
		Action: func(c *cli.Context) error { return prefetch(c, out) },
	}
}

// A prefetching is what the flags of prefetch ask for.
type prefetching struct {
	*wanted
	strict        bool
	requireSigned bool
	dryRun        bool
	slots         installer.Slots
}

func prefetch(c *cli.Context, out *output) error {
	w, err := readWanted(c, c.Args().Slice())
	if err != nil {
		return err
	}
	if w.session, err = newSession(c, out); err != nil {
		return err
	}
	if w.flags.noCache {
		return usageError{errors.New("--no-cache leaves no cache to fill")}
	}
	p := &prefetching{
		wanted: w, strict: c.Bool("strict"), requireSigned: c.Bool("require-signed"), dryRun: c.Bool("dry-run"),
		slots: installer.NewSlots(w.flags.jobs),
	}
	return p.run(c.Context)
}

func (p *prefetching) run(ctx context.Context) error {
	supplies, readErr := p.read(ctx)
	var usage usageError
	if errors.As(readErr, &usage) {
		return readErr
	}
	filled, errs := make([][]installer.Filled, len(supplies)), make([]error, len(supplies))
	var wg sync.WaitGroup
	for i, s := range supplies {
		wg.Go(func() {
			filled[i], errs[i] = p.fill(ctx, s)
			errs[i] = s.explain(errs[i])
		})
	}
	wg.Wait()
	p.out.prefetched(merge(filled))
	return errors.Join(append([]error{readErr}, errs...)...)
}

// fill brings what is wanted from one supply into the cache.
func (p *prefetching) fill(ctx context.Context, s *supply) ([]installer.Filled, error) {
	from, err := s.source(ctx, nil)
	if err != nil {
		return nil, err
	}
	path := s.cacheRoot()
	if path == "" {
		return nil, errors.New("there is no place for a plugin cache")
	}
	opts, err := s.cacheOptions()
	if err != nil {
		return nil, err
	}
	opts.Shared = s.engineCache()
	cache, err := s.openCache(path, opts)
	if err != nil {
		return nil, err
	}
	in := installer.New(from, cache, s.client, installer.Options{
		Engine:        s.config.Engine,
		Platforms:     p.platforms,
		Slots:         p.slots,
		RequireSigned: p.requireSigned,
		EngineCache:   s.engineCache(),
		Trust:         s.trustOptions(),
		Report:        p.out.event,
	})
	selected, chooseErr := in.Select(ctx, s.wants, p.versions)
	filled, err := in.Fill(ctx, selected, installer.FillOptions{Strict: p.strict, DryRun: p.dryRun})
	return filled, errors.Join(chooseErr, err)
}

// merge lists each package once, though several supplies may have been asked for
// it, of which at most one had to fetch it.
func merge(all [][]installer.Filled) []installer.Filled {
	if len(all) == 1 {
		return all[0] // each is there once and in order
	}
	var merged []installer.Filled
	at := map[sources.PackageID]int{}
	for _, some := range all {
		for _, f := range some {
			i, ok := at[f.ID]
			switch {
			case !ok:
				at[f.ID] = len(merged)
				merged = append(merged, f)
			case merged[i].Outcome.How == "", f.Outcome.How == installer.Fetched:
				merged[i] = f
			}
		}
	}
	slices.SortFunc(merged, func(a, b installer.Filled) int { return a.ID.Compare(b.ID) })
	return merged
}

// A prefetchSummary counts what came of packages.
type prefetchSummary struct {
	Packages int   `json:"packages"` // that are in the cache now, or would be
	Fetched  int   `json:"fetched"`
	Planned  int   `json:"planned,omitempty"`
	Bytes    int64 `json:"bytes"`
	Missing  int   `json:"missing"` // that do not exist
}

// prefetched writes what became of packages, and the sum of it.
func (o *output) prefetched(all []installer.Filled) {
	var sum prefetchSummary
	for _, f := range all {
		switch {
		case f.Outcome.How != "":
			o.result("package", inJSON(f.Outcome), "%s  %s", f.ID, strings.Join(about(f.Outcome), ", "))
			sum.add(f.Outcome)
		case errors.Is(f.Err, sources.ErrNoPlatform):
			o.result("missing", missingPackage{
				f.ID.Provider.String(), f.ID.Version.String(), f.ID.Platform.String(), sources.ErrNoPlatform.Error(),
			}, "%s  %s", f.ID, sources.ErrNoPlatform)
			sum.Missing++
		}
	}
	switch {
	case o.json:
		o.object("summary", sum)
	case len(all) > 0:
		o.say(normal, "%s", sum)
	}
}

func (s *prefetchSummary) add(got installer.Outcome) {
	s.Packages++
	switch got.How {
	case installer.Fetched:
		s.Fetched++
		s.Bytes += got.Size
	case installer.Planned:
		s.Planned++
	}
}

func (s prefetchSummary) String() string {
	text := fmt.Sprintf("%s: %d fetched (%s)", count(s.Packages, "package"), s.Fetched, humanSize(s.Bytes))
	if s.Planned > 0 {
		text = fmt.Sprintf("%s: %d would be fetched", count(s.Packages, "package"), s.Planned)
	}
	text = fmt.Sprintf("%s, %d already there", text, s.Packages-s.Fetched-s.Planned)
	if s.Missing > 0 {
		text += fmt.Sprintf(", %d missing", s.Missing)
	}
	return text
}
