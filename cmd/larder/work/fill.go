package work

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
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
	requirePlatforms bool // a version without a package for a platform is an error
	empty            bool // the inputs require nothing
	left             bool // a new mirror has no package, but an interrupted download
}

// A FillRequest says which packages to put into a store.
type FillRequest struct {
	Arguments        []string     // addresses, root modules, lock files and lists of providers, as typed
	From             []string     // the latter three, as typed
	Place            PlaceRequest // to fetch from, if there is one
	Versions         installer.SelectOptions
	RequirePlatforms bool // fail if a version has no package for a platform
	Keep             bool // prunes keep the packages
}

// newFilling returns a filling with the packages of a request, except its arguments: see [wanted.take].
func newFilling(s *Session, r FillRequest) *filling {
	s.forDeclared = true
	s.place = r.Place
	return &filling{wanted: &wanted{Session: s, paths: r.From, versions: r.Versions}, requirePlatforms: r.RequirePlatforms}
}

// A destination is a store that a supply fills.
type destination struct {
	acquire.Store
	engineCache bool               // the engine also uses the store
	memory      acquire.Memory     // hash records, if they are not in the store
	nearby      []*fsmirror.Mirror // mirrors that provide archives without a download
	had         installer.How      // how packages that were in the store before are shown
	skips       skipper            // nil if no package is left out

	keep func(sources.PackageID) error // marks a package, so that a prune keeps it; nil if it may go
}

// A skipper reports whether a selected package is left out. It may query the source.
type skipper func(context.Context, sources.Source, installer.Selected) bool

// run puts the requested packages into the stores that to returns, and then calls finish,
// even after errors. It shows the result for each package and returns the totals.
func (f *filling) run(ctx context.Context, to func(*supply) (destination, error), finish func(context.Context) error) (report.FillSum, error) {
	var supplies []*supply
	var readErr error
	f.output.Together(func() { supplies, readErr = f.read(ctx) })
	var usage report.UsageError
	if errors.As(readErr, &usage) {
		return report.FillSum{}, readErr
	}
	f.empty = len(supplies) == 0 && readErr == nil
	var declared []string
	for _, s := range supplies {
		if s.declared() {
			declared = append(declared, sources.Texts(s.platforms())...)
		}
	}
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
	failed := sources.Errors(errors.Join(append([]error{readErr}, errs...)...))
	absent, others := absentIn(failed)
	sum := f.showFilled(merge(filled), absent)
	f.warnUnusedKeys()
	sum.DryRun = f.flags.DryRun
	slices.Sort(declared)
	sum.Declared = slices.Compact(declared)
	sum.Missing = max(sum.Missing, len(absent))
	sum.Failed = max(sum.Failed, others)
	f.output.Summary(sum)
	return sum, errors.Join(append([]error{readErr, finishErr}, errs...)...)
}

// absentIn returns the packages that are errors because they don't exist for their platform, and
// the number of other errors.
func absentIn(errs []error) (absent map[sources.PackageID]bool, others int) {
	absent = map[sources.PackageID]bool{}
	for _, err := range errs {
		if pkg := (*sources.PackageError)(nil); errors.Is(err, sources.ErrNoPlatform) && errors.As(err, &pkg) {
			absent[pkg.ID] = true
		} else {
			others++
		}
	}
	return absent, others
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
	opts := s.installerOptions(func(e acquire.Event) { f.output.About(places.of(e)).Event(e) })
	opts.EngineCache, opts.Memory = d.engineCache, d.memory
	if d.nearby != nil {
		from = fsmirror.Nearby(from, d.nearby)
	}
	in := installer.NewFetcher(from, d.Store, s.client, opts)
	selected, chooseErr := s.selected, error(nil)
	if selected == nil {
		selected, chooseErr = in.Select(ctx, s.wants, f.versions)
	}
	if d.skips != nil {
		selected = slices.DeleteFunc(selected, func(s installer.Selected) bool { return d.skips(ctx, from, s) })
	}
	places.add(selected)
	if d.keep != nil && !f.flags.DryRun {
		release, err := d.Use(ctx) // until the packages are marked
		if err != nil {
			return nil, err
		}
		defer release()
	}
	filled, err := in.Fill(ctx, selected, installer.FillOptions{RequirePlatforms: f.requirePlatforms, DryRun: f.flags.DryRun})
	for i := range filled {
		how := filled[i].Outcome.How
		if how == installer.FromStore {
			filled[i].Outcome.How = d.had
		}
		if d.keep != nil && how != "" && !f.flags.DryRun {
			err = errors.Join(err, d.keep(filled[i].ID))
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

// of returns the root modules of an event: those that failed, or else those of its package or provider.
func (p *places) of(e acquire.Event) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(e.Modules) > 0 {
		return e.Modules
	}
	if found, ok := p.ids[e.Package]; ok {
		return found
	}
	return p.ids[sources.PackageID{Provider: e.Package.Provider}]
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

// showFilled prints the result for each package and returns the totals. An absent package is an
// error, which is printed elsewhere.
func (f *filling) showFilled(all []installer.Filled, absent map[sources.PackageID]bool) (sum report.FillSum) {
	out := f.output
	var changes []report.Change
	sum.Tried = len(all)
	for _, got := range all {
		switch {
		case got.Outcome.How != "":
			changes = append(changes, report.Change{
				Outcome: got.Outcome, Modules: got.Modules(),
				Unchanged: got.Outcome.How != installer.Fetched && got.Outcome.How != installer.Planned,
			})
			sum.Add(got.Outcome)
			f.signers.saw(got.Outcome.Package)
		case errors.Is(got.Err, sources.ErrNoPlatform):
			sum.Missing++
		default:
			sum.Failed++
		}
	}
	out.Changes(changes)
	for _, got := range all {
		if got.Outcome.How == "" && errors.Is(got.Err, sources.ErrNoPlatform) && !absent[got.ID] {
			out.Missing(got.ID, got.Modules(), sources.ErrNoPlatform, "%s  %s", got.ID, sources.ErrNoPlatform)
		}
	}
	return sum
}

// runMirror is run for a mirror. It opens the mirror before the first request, unless nothing
// is required, updates its index even after errors, and closes it. Tell prints the summary; its
// mirror is nil if none was opened.
func (f *filling) runMirror(ctx context.Context, open func() (*builder.Builder, error), skips skipper, tell func(*builder.Builder, report.FillSum) error) error {
	var b *builder.Builder
	opened := sync.OnceValue(func() (err error) {
		b, err = open()
		return err
	})
	sum, err := f.run(ctx, func(s *supply) (destination, error) {
		err := opened()
		return destination{Store: b, memory: s.memory(), nearby: s.nearby(), had: alreadyThere, skips: skips}, err
	}, func(ctx context.Context) error {
		if f.flags.DryRun || b == nil {
			return nil
		}
		return b.Finish(ctx)
	})
	err = errors.Join(err, tell(b, sum))
	switch {
	case b == nil:
		return err
	case err == nil:
		return b.Close()
	}
	var abortErr error
	f.left, abortErr = b.Abort()
	return errors.Join(err, abortErr)
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
