package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// A filling puts what its arguments and flags ask for into stores: the plugin cache
// of prefetch, or the mirror of mirror sync.
type filling struct {
	*wanted
	strict bool
	empty  bool // nothing is required where it was looked
}

// A destination is a store that a supply fills.
type destination struct {
	acquire.Store
	engineCache bool               // the engine uses the store too
	memory      acquire.Memory     // of hashes, if the store is not where they are kept
	nearby      []*fsmirror.Mirror // whose archives are taken rather than downloaded
	had         installer.How      // how packages are shown that the store had before
}

// newFilling reads the flags, and what is wanted: the addresses and what wantedFlags
// select.
func newFilling(c *cli.Context, out *ui.Output, addresses []string) (*filling, error) {
	w, err := readWanted(c, addresses)
	if err != nil {
		return nil, err
	}
	if w.session, err = newSession(c, out); err != nil {
		return nil, err
	}
	return &filling{wanted: w, strict: c.Bool("strict")}, nil
}

// run puts what is wanted into the stores that to returns, and then calls finish
// whatever failed.
func (f *filling) run(ctx context.Context, to func(*supply) (destination, error), finish func(context.Context) error) error {
	supplies, readErr := f.read(ctx)
	var usage usageError
	if errors.As(readErr, &usage) {
		return readErr
	}
	f.empty = len(supplies) == 0 && readErr == nil
	filled, errs := make([][]installer.Filled, len(supplies)), make([]error, len(supplies))
	var group sync.WaitGroup
	for i, s := range supplies {
		group.Go(func() {
			filled[i], errs[i] = f.fill(ctx, s, to)
			errs[i] = s.explain(errs[i])
		})
	}
	group.Wait()
	finishErr := finish(ctx)
	showFilled(f.out, merge(filled))
	return errors.Join(append([]error{readErr, finishErr}, errs...)...)
}

// fill puts what one supply is to provide into its store.
func (f *filling) fill(ctx context.Context, s *supply, to func(*supply) (destination, error)) ([]installer.Filled, error) {
	from, err := s.source(ctx, nil)
	if err != nil {
		return nil, err
	}
	d, err := to(s)
	if err != nil {
		return nil, err
	}
	opts := s.installerOptions(f.out.Event)
	opts.EngineCache, opts.Memory = d.engineCache, d.memory
	if d.nearby != nil {
		from = fsmirror.Nearby(from, d.nearby)
	}
	in := installer.NewFetcher(from, d.Store, s.client, opts)
	selected, chooseErr := in.Select(ctx, s.wants, f.versions)
	filled, err := in.Fill(ctx, selected, installer.FillOptions{Strict: f.strict, DryRun: f.flags.dryRun})
	for i := range filled {
		if filled[i].Outcome.How == installer.FromStore {
			filled[i].Outcome.How = d.had
		}
	}
	return filled, errors.Join(chooseErr, err)
}

// merge lists each package once, though several supplies may have been asked for
// it, and at most one of them had to fetch it.
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

// A fillSummary counts what came of packages.
type fillSummary struct {
	Packages int   `json:"packages"` // that are in the store now, or would be
	Fetched  int   `json:"fetched"`
	Planned  int   `json:"planned,omitempty"` // to be fetched; a dry run's
	Bytes    int64 `json:"bytes"`
	Missing  int   `json:"missing"` // that do not exist
	Failed   int   `json:"failed"`
}

// showFilled writes what became of packages, and the sum of it.
func showFilled(out *ui.Output, all []installer.Filled) {
	var sum fillSummary
	var changes []ui.Change
	for _, f := range all {
		switch {
		case f.Outcome.How != "":
			changes = append(changes, ui.Change{Outcome: f.Outcome, Unchanged: f.Outcome.How != installer.Fetched && f.Outcome.How != installer.Planned})
			sum.add(f.Outcome)
		case errors.Is(f.Err, sources.ErrNoPlatform):
			sum.Missing++
		default:
			sum.Failed++
		}
	}
	out.Changes(changes)
	for _, f := range all {
		if f.Outcome.How == "" && errors.Is(f.Err, sources.ErrNoPlatform) {
			out.Missing(f.ID, sources.ErrNoPlatform, "%s  %s", f.ID, sources.ErrNoPlatform)
		}
	}
	switch {
	case out.JSON:
		out.Object("summary", sum)
	case len(all) > 0:
		out.Say("%s", sum.text(out))
	}
}

// add counts a package that the store has now, or would have.
func (s *fillSummary) add(got installer.Outcome) {
	s.Packages++
	switch got.How {
	case installer.Fetched:
		s.Fetched++
		s.Bytes += got.Size
	case installer.Planned:
		s.Planned++
	}
}

// text is the summary for people.
func (s fillSummary) text(out *ui.Output) string {
	had := s.Packages - s.Fetched - s.Planned
	if s.Fetched+s.Planned+s.Missing+s.Failed == 0 {
		return fmt.Sprintf("%s already there (%s)", ui.Count(had, "package"), ui.Took(out.Elapsed()))
	}
	did := "Added " + ui.Count(s.Fetched, "package")
	if s.Planned > 0 {
		did = "Would fetch " + ui.Count(s.Planned, "package")
	}
	parts := []string{did}
	for _, part := range []struct {
		n    int
		what string
	}{{had, "already there"}, {s.Missing, "not available for the platform"}, {s.Failed, "failed"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if s.Fetched > 0 {
		parts = append(parts, ui.Fetched(s.Bytes, out.Elapsed()))
	}
	return strings.Join(parts, ", ")
}

// runMirror is run for a mirror, which it closes. The mirror's index is brought up to
// date whatever failed.
func (f *filling) runMirror(ctx context.Context, b *builder.Builder) error {
	err := f.run(ctx, func(s *supply) (destination, error) {
		return destination{Store: b, memory: s.memory(), nearby: s.nearby(), had: alreadyThere}, nil
	}, func(ctx context.Context) error {
		if f.flags.dryRun {
			return nil
		}
		return b.Finish(ctx)
	})
	return errors.Join(err, b.Close())
}

// alreadyThere is how packages are shown that a mirror had before.
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
