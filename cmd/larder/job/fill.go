package job

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A Filling puts the packages that its arguments and flags select into stores: the plugin
// cache of prefetch, or the mirror of mirror sync.
type Filling struct {
	*Wanted
	RequirePlatforms bool       // a version without a package for a platform is an error
	Empty            bool       // the inputs require nothing
	Approved         *trust.Set // the packages that it lists are approved by its keys; may be nil
	Left             bool       // a new mirror has no package, but an interrupted download

	Got map[sources.PackageID]bool // what the stores have, after Run
}

// A FillRequest says which packages to put into a store.
type FillRequest struct {
	Arguments        []string // addresses, root modules, lock files and lists of providers, as typed
	Versions         installer.SelectOptions
	RequirePlatforms bool // fail if a version has no package for a platform
	Keep             bool // prunes keep the packages
}

// NewFilling returns a filling with the packages of a request, except its arguments: see [Wanted.Take].
func NewFilling(s *site.Site, r FillRequest) *Filling {
	s.ForDeclared = true
	wanted := &Wanted{Site: s, Paths: s.Flags.From, versions: r.Versions}
	return &Filling{Wanted: wanted, RequirePlatforms: r.RequirePlatforms}
}

// NewLocked returns a filling with the packages that lock files select. It reads nothing else, so modules may be
// missing.
func NewLocked(s *site.Site, t *Tree) *Filling {
	f := &Filling{Wanted: &Wanted{Site: s}, RequirePlatforms: true}
	for _, l := range t.Locked {
		f.Paths = append(f.Paths, filepath.Join(l.Module, lockfile.Name))
	}
	f.Paths = slices.Compact(f.Paths)
	return f
}

// A Destination is a store that a supply fills.
type Destination struct {
	acquire.Store
	EngineCache bool           // the engine also uses the store
	memory      acquire.Memory // hash records, if they are not in the store
	Had         installer.How  // how packages that were in the store before are shown
	skips       Skipper        // nil if no package is left out

	Keep func(sources.PackageID) error // marks a package, so that a prune keeps it; nil if it may go
}

// An Opener opens the store for a supply.
type Opener func(*Supply) (Destination, error)

// A Skipper reports whether a selected package is left out. It may query the source.
type Skipper func(context.Context, sources.Source, installer.Selected) bool

// Run puts the requested packages into the stores that to returns, and then calls finish,
// even after errors. It shows the result for each package and returns the totals.
func (f *Filling) Run(ctx context.Context, to Opener, finish func(context.Context) error) (report.FillSum, error) {
	var supplies []*Supply
	var readErr error
	f.Output.Together(func() { supplies, readErr = f.Read(ctx) })
	var usage report.UsageError
	if errors.As(readErr, &usage) {
		return report.FillSum{}, readErr
	}
	f.Empty = len(supplies) == 0 && readErr == nil
	var declared []string
	for _, s := range supplies {
		if s.Declared() {
			declared = append(declared, sources.Texts(s.Platforms())...)
		}
	}
	filled, errs := make([][]installer.Filled, len(supplies)), make([]error, len(supplies))
	var group sync.WaitGroup
	for i, s := range supplies {
		group.Go(func() {
			filled[i], errs[i] = f.fill(ctx, s, to)
			errs[i] = s.Explain(errs[i])
		})
	}
	group.Wait()
	finishErr := finish(ctx)
	failed := sources.Errors(errors.Join(append([]error{readErr}, errs...)...))
	absent, others := absentIn(failed)
	merged := merge(filled)
	f.Got = map[sources.PackageID]bool{}
	for _, got := range merged {
		f.Got[got.ID] = got.Outcome.How != ""
	}
	sum := f.showFilled(merged, absent)
	f.WarnUnusedKeys()
	sum.DryRun = f.Flags.DryRun
	slices.Sort(declared)
	sum.Declared = slices.Compact(declared)
	sum.Missing = max(sum.Missing, len(absent))
	sum.Failed = max(sum.Failed, others)
	f.Output.Summary(sum)
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
func (f *Filling) fill(ctx context.Context, s *Supply, to Opener) ([]installer.Filled, error) {
	from, err := s.Source(ctx)
	if err != nil {
		return nil, err
	}
	d, err := to(s)
	if err != nil {
		return nil, err
	}
	by := requirersOf(s.Wants)
	opts := s.InstallerOptions(func(e acquire.Event) { f.Output.About(by.of(e)).Event(e) })
	opts.EngineCache, opts.Memory, opts.Approved = d.EngineCache, d.memory, f.Approved
	in := installer.NewFetcher(from, d.Store, s.Client, opts)
	selected, chooseErr := s.selected, error(nil)
	if selected == nil {
		selected, chooseErr = in.Select(ctx, s.Wants, f.versions)
	}
	if d.skips != nil {
		selected = slices.DeleteFunc(selected, func(s installer.Selected) bool { return d.skips(ctx, from, s) })
	}
	for _, s := range selected { // nothing is reported meanwhile
		by[s.ID] = s.Modules()
	}
	if d.Keep != nil && !f.Flags.DryRun {
		release, err := d.Use(ctx) // until the packages are marked
		if err != nil {
			return nil, err
		}
		defer release()
	}
	fill := installer.FillOptions{RequirePlatforms: f.RequirePlatforms, DryRun: f.Flags.DryRun}
	filled, err := in.Fill(ctx, selected, fill)
	for i := range filled {
		how := filled[i].Outcome.How
		if how == installer.FromStore {
			filled[i].Outcome.How = d.Had
		}
		if d.Keep != nil && how != "" && !f.Flags.DryRun {
			err = errors.Join(err, d.Keep(filled[i].ID))
		}
	}
	return filled, errors.Join(chooseErr, err)
}

// requirers are the root modules that require packages, so that events can name them. The key of a provider is an ID
// without a version.
type requirers map[sources.PackageID][]string

// requirersOf returns the root modules that require providers.
func requirersOf(wants []installer.Want) requirers {
	by := requirers{}
	for _, w := range wants {
		id := sources.PackageID{Provider: w.Provider}
		by[id] = append(by[id], w.Modules...)
	}
	return by
}

// of returns the root modules of an event: those that failed, or else those of its package or provider.
func (by requirers) of(e acquire.Event) []string {
	if len(e.Modules) > 0 {
		return e.Modules
	}
	if found, ok := by[e.Package]; ok {
		return found
	}
	return by[sources.PackageID{Provider: e.Package.Provider}]
}

// merge lists each package once. Several supplies may include the same package, but at most
// one of them downloads it.
func merge(all [][]installer.Filled) []installer.Filled {
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
func (f *Filling) showFilled(all []installer.Filled, absent map[sources.PackageID]bool) (sum report.FillSum) {
	out := f.Output
	changes := make([]report.Change, 0, len(all))
	sum.Tried = len(all)
	for i := range all {
		switch got := &all[i]; {
		case got.Outcome.How != "":
			changes = append(changes, report.Change{
				Outcome: &got.Outcome, Modules: got.Modules(),
				Unchanged: got.Outcome.How != installer.Fetched && got.Outcome.How != installer.Planned,
			})
			sum.Add(got.Outcome)
			f.Signers.Saw(got.Outcome.Package)
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

// RunMirror is [Filling.Run] for a mirror. It opens the mirror before the first request, unless nothing
// is required, updates its index even after errors, and closes it. Tell prints the summary; its
// mirror is nil if none was opened.
func (f *Filling) RunMirror(
	ctx context.Context, open func() (*builder.Builder, error), skips Skipper,
	tell func(*builder.Builder, report.FillSum) error,
) error {
	var b *builder.Builder
	opened := sync.OnceValue(func() (err error) {
		b, err = open()
		return err
	})
	sum, err := f.Run(ctx, func(s *Supply) (Destination, error) {
		err := opened()
		return Destination{Store: b, memory: s.Memory(), Had: AlreadyThere, skips: skips}, err
	}, func(ctx context.Context) error {
		if f.Flags.DryRun || b == nil {
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
	f.Left, abortErr = b.Abort()
	return errors.Join(err, abortErr)
}

// AlreadyThere describes packages that were in a mirror before.
const AlreadyThere installer.How = "already there"
