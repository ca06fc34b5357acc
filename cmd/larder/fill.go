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

// newFilling reads the flags. [wanted.take] takes the arguments.
func newFilling(c *cli.Context, out *ui.Output) (*filling, error) {
	w, err := readWanted(c)
	if err != nil {
		return nil, err
	}
	if w.session, err = newSession(c, out); err != nil {
		return nil, err
	}
	return &filling{wanted: w, strict: c.Bool("strict")}, nil
}

// run puts what is wanted into the stores that to returns, and then calls finish
// whatever failed. It shows what became of packages, and returns the sum of it.
func (f *filling) run(ctx context.Context, to func(*supply) (destination, error), finish func(context.Context) error) (fillSummary, error) {
	supplies, readErr := f.read(ctx)
	var usage usageError
	if errors.As(readErr, &usage) {
		return fillSummary{}, readErr
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
	sum := showFilled(f.out, merge(filled))
	sum.DryRun = f.flags.dryRun
	sum.Failed = max(sum.Failed, len(sources.Errors(errors.Join(append([]error{readErr}, errs...)...))))
	f.out.Summary(sum)
	return sum, errors.Join(append([]error{readErr, finishErr}, errs...)...)
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
	places := placesOf(s.wants)
	opts := s.installerOptions(func(e acquire.Event) { f.out.About(places.of(e.Package)).Event(e) })
	opts.EngineCache, opts.Memory = d.engineCache, d.memory
	if d.nearby != nil {
		from = fsmirror.Nearby(from, d.nearby)
	}
	in := installer.NewFetcher(from, d.Store, s.client, opts)
	selected, chooseErr := in.Select(ctx, s.wants, f.versions)
	places.add(selected)
	filled, err := in.Fill(ctx, selected, installer.FillOptions{Strict: f.strict, DryRun: f.flags.dryRun})
	for i := range filled {
		if filled[i].Outcome.How == installer.FromStore {
			filled[i].Outcome.How = d.had
		}
	}
	return filled, errors.Join(chooseErr, err)
}

// places are the root modules that packages are for, so that events can name them. Those
// of a provider have an ID without version.
type places struct {
	mu  sync.Mutex
	ids map[sources.PackageID][]string
}

// placesOf are the places of providers.
func placesOf(wants []installer.Want) *places {
	p := &places{ids: map[sources.PackageID][]string{}}
	for _, w := range wants {
		id := sources.PackageID{Provider: w.Provider}
		p.ids[id] = append(p.ids[id], w.Modules...)
	}
	return p
}

// add adds the places of packages.
func (p *places) add(selected []installer.Selected) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range selected {
		p.ids[s.ID] = s.Modules()
	}
}

// of are the places of a package or a provider.
func (p *places) of(id sources.PackageID) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found, ok := p.ids[id]; ok {
		return found
	}
	return p.ids[sources.PackageID{Provider: id.Provider}]
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
				f.Wants = slices.Concat(merged[i].Wants, f.Wants)
				merged[i] = f
			default:
				merged[i].Wants = slices.Concat(merged[i].Wants, f.Wants)
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
	DryRun   bool  `json:"dry_run,omitempty"`

	tried int // packages
}

// showFilled writes what became of packages, and returns the sum of it.
func showFilled(out *ui.Output, all []installer.Filled) (sum fillSummary) {
	var changes []ui.Change
	sum.tried = len(all)
	for _, f := range all {
		switch {
		case f.Outcome.How != "":
			changes = append(changes, ui.Change{
				Outcome: f.Outcome, Modules: f.Modules(),
				Unchanged: f.Outcome.How != installer.Fetched && f.Outcome.How != installer.Planned,
			})
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
			out.Missing(f.ID, f.Modules(), sources.ErrNoPlatform, "%s  %s", f.ID, sources.ErrNoPlatform)
		}
	}
	return sum
}

// empty reports whether nothing was tried: there was nothing to do, or the errors say why.
func (s fillSummary) empty() bool { return s.tried == 0 }

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
// date whatever failed. Tell writes what it came to.
func (f *filling) runMirror(ctx context.Context, b *builder.Builder, tell func(fillSummary) error) error {
	sum, err := f.run(ctx, func(s *supply) (destination, error) {
		return destination{Store: b, memory: s.memory(), nearby: s.nearby(), had: alreadyThere}, nil
	}, func(ctx context.Context) error {
		if f.flags.dryRun {
			return nil
		}
		return b.Finish(ctx)
	})
	return errors.Join(err, tell(sum), b.Close())
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
