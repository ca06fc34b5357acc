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

// A filling puts the packages that its arguments and flags select into stores: the plugin
// cache of prefetch, or the mirror of mirror sync.
type filling struct {
	*wanted
	strict bool
	empty  bool // the inputs require nothing
}

// A destination is a store that a supply fills.
type destination struct {
	acquire.Store
	engineCache bool               // the engine also uses the store
	memory      acquire.Memory     // hash records, if they are not in the store
	nearby      []*fsmirror.Mirror // mirrors that provide archives without a download
	had         installer.How      // how packages that were in the store before are shown
	skips       skipper            // nil if no package is left out
}

// A skipper reports whether a selected package is left out. It may query the source.
type skipper func(context.Context, sources.Source, installer.Selected) bool

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

// run puts the requested packages into the stores that to returns, and then calls finish,
// even after errors. It shows the result for each package and returns the totals.
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
	sum := f.showFilled(merge(filled))
	f.warnUnusedKeys()
	sum.DryRun = f.flags.dryRun
	sum.Failed = max(sum.Failed, len(sources.Errors(errors.Join(append([]error{readErr}, errs...)...))))
	f.out.Summary(sum)
	return sum, errors.Join(append([]error{readErr, finishErr}, errs...)...)
}

// fill puts the packages of one supply into its store.
func (f *filling) fill(ctx context.Context, s *supply, to func(*supply) (destination, error)) ([]installer.Filled, error) {
	from, err := s.source(ctx)
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
	if d.skips != nil {
		selected = slices.DeleteFunc(selected, func(s installer.Selected) bool { return d.skips(ctx, from, s) })
	}
	places.add(selected)
	filled, err := in.Fill(ctx, selected, installer.FillOptions{Strict: f.strict, DryRun: f.flags.dryRun})
	for i := range filled {
		if filled[i].Outcome.How == installer.FromStore {
			filled[i].Outcome.How = d.had
		}
	}
	return filled, errors.Join(chooseErr, err)
}

// places maps packages to the root modules that require them, so that events can name
// them. The key of a provider is an ID without a version.
type places struct {
	mu  sync.Mutex
	ids map[sources.PackageID][]string
}

// placesOf returns the root modules of providers.
func placesOf(wants []installer.Want) *places {
	p := &places{ids: map[sources.PackageID][]string{}}
	for _, w := range wants {
		id := sources.PackageID{Provider: w.Provider}
		p.ids[id] = append(p.ids[id], w.Modules...)
	}
	return p
}

// add adds the root modules of packages.
func (p *places) add(selected []installer.Selected) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range selected {
		p.ids[s.ID] = s.Modules()
	}
}

// of returns the root modules of a package or provider.
func (p *places) of(id sources.PackageID) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found, ok := p.ids[id]; ok {
		return found
	}
	return p.ids[sources.PackageID{Provider: id.Provider}]
}

// merge lists each package once. Several supplies may include the same package, but at most
// one of them downloads it.
func merge(all [][]installer.Filled) []installer.Filled {
	if len(all) == 1 {
		return all[0] // already unique and sorted
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

// A fillSummary counts packages by result.
type fillSummary struct {
	Packages int   `json:"packages"` // now in the store, or that would be
	Fetched  int   `json:"fetched"`
	Planned  int   `json:"planned,omitempty"` // that a dry run would download
	Bytes    int64 `json:"bytes"`
	Missing  int   `json:"missing"` // that do not exist
	Failed   int   `json:"failed"`
	DryRun   bool  `json:"dry_run,omitempty"`

	tried int // all packages
}

// showFilled prints the result for each package and returns the totals.
func (f *filling) showFilled(all []installer.Filled) (sum fillSummary) {
	out := f.out
	var changes []ui.Change
	sum.tried = len(all)
	for _, got := range all {
		switch {
		case got.Outcome.How != "":
			changes = append(changes, ui.Change{
				Outcome: got.Outcome, Modules: got.Modules(),
				Unchanged: got.Outcome.How != installer.Fetched && got.Outcome.How != installer.Planned,
			})
			sum.add(got.Outcome)
			f.signers.saw(got.Outcome.Package)
		case errors.Is(got.Err, sources.ErrNoPlatform):
			sum.Missing++
		default:
			sum.Failed++
		}
	}
	out.Changes(changes)
	for _, got := range all {
		if got.Outcome.How == "" && errors.Is(got.Err, sources.ErrNoPlatform) {
			out.Missing(got.ID, got.Modules(), sources.ErrNoPlatform, "%s  %s", got.ID, sources.ErrNoPlatform)
		}
	}
	return sum
}

// empty reports whether no package was tried: nothing was required, or errors are the reason.
func (s fillSummary) empty() bool { return s.tried == 0 }

// add counts a package that is in the store now, or would be.
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

// text returns the summary as text.
func (s fillSummary) text(out *ui.Output) string {
	had := s.Packages - s.Fetched - s.Planned
	if s.Fetched+s.Planned+s.Missing+s.Failed == 0 {
		return fmt.Sprintf("%s already there (%s)", ui.Count(had, "package"), ui.Took(out.Elapsed()))
	}
	did := "Added " + ui.Count(s.Fetched, "package")
	if s.Planned > 0 {
		did = "Would fetch " + ui.Count(s.Planned, "package")
	}
	parts := append([]string{did}, ui.Numbers(ui.Number{N: had, What: "already there"},
		ui.Number{N: s.Missing, What: "not available for the platform"}, ui.Number{N: s.Failed, What: "failed"})...)
	if s.Bytes > 0 {
		parts = append(parts, ui.Fetched(s.Bytes, out.Elapsed()))
	}
	return strings.Join(parts, ", ")
}

// runMirror is run for a mirror. It opens the mirror before the first request, unless nothing
// is required, updates its index even after errors, and closes it. Tell prints the summary; its
// mirror is nil if none was opened.
func (f *filling) runMirror(ctx context.Context, open func() (*builder.Builder, error), skips skipper, tell func(*builder.Builder, fillSummary) error) error {
	var b *builder.Builder
	opened := sync.OnceValue(func() (err error) {
		b, err = open()
		return err
	})
	sum, err := f.run(ctx, func(s *supply) (destination, error) {
		err := opened()
		return destination{Store: b, memory: s.memory(), nearby: s.nearby(), had: alreadyThere, skips: skips}, err
	}, func(ctx context.Context) error {
		if f.flags.dryRun || b == nil {
			return nil
		}
		return b.Finish(ctx)
	})
	err = errors.Join(err, tell(b, sum))
	if b != nil {
		err = errors.Join(err, b.Close())
	}
	return err
}

// alreadyThere describes packages that were in a mirror before.
const alreadyThere installer.How = "already there"

// nearby returns the mirrors on this machine, including those that are not used for
// installation.
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
