package install

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A locking is one run of lock, with its results so far.
type locking struct {
	*site.Site
	LockRequest
	only []string // addresses; empty means all required providers

	platforms func(*site.Root) []sources.Platform // that lock files must have hashes for; nil means those of the flags

	lockers site.Memo[string, *installer.Locker] // by the sources of the root module

	mu       sync.Mutex
	scratch  *disk.Scratch               // cache for packages that no other cache accepts; nil until first used
	said     map[string]bool             // events that were shown
	required map[string]bool             // the addresses in only that a root module requires
	others   []sources.Provider          // required, but not in only
	modules  map[sources.Provider]string // the first root module that requires it
	tally    tally
	changes  []report.LockChange
	problems []report.LockProblem
}

// A LockRequest says which lock files to complete or to check, and how.
type LockRequest struct {
	Arguments []string // root modules and providers, as typed
	Keep      bool     // packages of other platforms are kept in the plugin cache
	Check     bool
	Strict    bool // for a check
}

// Lock completes lock files, or checks them. It checks the request before it reads anything.
func Lock(ctx context.Context, s *site.Site, request LockRequest) error {
	l := &locking{
		Site: s, LockRequest: request,
		said: map[string]bool{}, required: map[string]bool{}, modules: map[sources.Provider]string{},
	}
	l.Reading.Certain, l.Locks = request.Check, true
	l.Checks, s.Flags.ReadOnly = request.Check || s.Flags.DryRun, false
	if err := l.take(request.Arguments); err != nil {
		return err
	}
	defer l.closeScratch()
	l.ForDeclared = true
	l.tally.Check, l.tally.DryRun = l.Check, l.Flags.DryRun
	failed := l.Each(ctx, l.at)
	var absent error
	if failed == nil { // otherwise a root module that failed may require the providers
		absent = l.notRequired()
	}
	found := l.sum(absent == nil)
	if failed != nil { // show the results so far, which may be incomplete
		if _, problems := errors.AsType[report.FoundError](found); problems {
			l.Output.Say("%v", found)
		}
		return failed
	}
	return errors.Join(absent, found)
}

// take reads the arguments: root modules, and addresses of providers.
func (l *locking) take(args []string) error {
	roots, addresses, err := job.Separate(l.Site, args)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		if _, _, versioned := sources.CutVersion(address); versioned {
			err := fmt.Errorf("%s: lock takes addresses without a version", address)
			return report.Usage(sources.WithHint(err, "larder lock keeps the locked version; with --upgrade it chooses the newest that the configuration allows"))
		}
		if _, err := sources.ParseProvider(address, sources.Terraform); err != nil {
			return report.Usage(err)
		}
	}
	l.only = addresses
	return job.TakeRoots(l.Site, roots)
}

// at locks for the root module in dir.
func (l *locking) at(ctx context.Context, dir string, out *report.Output) (show func(), err error) {
	m := &lockedModule{out: out, file: filepath.Join(dir, lockfile.Name), check: l.Check, dryRun: l.Flags.DryRun}
	if l.Flags.Recursive {
		m.module = l.relative(dir)
	}
	err = l.lock(ctx, dir, m)
	if l.Check && isFinding(err) {
		m.wrong, err = err, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.tally.add(m)
		if m.result != nil {
			l.Signers.SawAll(m.result.Packages)
		}
	} else {
		l.tally.Failed++
	}
	return func() {
		m.show(ctx)
		l.tally.addPlatforms(m)
		l.changes, l.problems = append(l.changes, m.changes()...), append(l.problems, m.problems()...)
	}, err
}

// relative returns the path of a root module relative to the working directory.
func (l *locking) relative(dir string) string {
	if relative, err := filepath.Rel(l.WorkDir, dir); err == nil {
		return relative
	}
	return dir
}

// isFinding reports whether err only means that a lock file has problems.
func isFinding(err error) bool {
	var conflict *installer.LockConflictError
	var mismatch *acquire.HashMismatchError
	var republished *acquire.RepublishedError
	return err != nil && !slices.ContainsFunc(sources.Errors(err), func(err error) bool {
		return (!errors.As(err, &conflict) || conflict.Gone) && !errors.As(err, &republished) && !(errors.As(err, &mismatch) && mismatch.By != "")
	})
}

// lock determines the complete lock file of a root module. Unless this is a check, it writes
// the file.
func (l *locking) lock(ctx context.Context, dir string, locked *lockedModule) error {
	m, err := l.Root(ctx, dir, locked.out)
	if err != nil {
		return err
	}
	needs := m.NeedsIfAny
	if l.Check && !l.Flags.Recursive { // a check of nothing is not a success
		needs = m.Needs
	}
	root, err := needs(ctx)
	if err != nil || root == nil {
		return err
	}
	l.choose(root, m.Config.Engine)
	l.note(dir, root)
	if !l.Flags.Recursive && len(l.Roots) < 2 { // otherwise another root module may require the named providers
		if err := l.notRequired(); err != nil {
			return err
		}
	}
	locker, methods, err := l.open(ctx, m)
	if err != nil {
		return err
	}
	return l.complete(ctx, m, root, locked, locker, methods)
}

// open returns the locker of a root module with its sources.
func (l *locking) open(ctx context.Context, m *site.Root) (*installer.Locker, []sources.Method, error) {
	methods, err := m.Methods(ctx)
	if err != nil {
		return nil, nil, err
	}
	locker, err := l.locker(m, methods)
	return locker, methods, err
}

// complete determines the complete lock file for the requirements of a root module.
func (l *locking) complete(ctx context.Context, m *site.Root, root *installer.Root, locked *lockedModule, locker *installer.Locker, methods []sources.Method) (err error) {
	root.DryRun = l.Checks
	locked.before, locked.engine = root.Lock, m.Config.Engine
	locked.platforms, locked.declared = m.Platforms(), m.Declared()
	locked.result, err = locker.Lock(ctx, *root)
	if l.Strict {
		locked.checkedOut = servedHere(ctx, m, methods, root, locked.result)
	}
	return m.Explain(err)
}

// choose removes all required providers that the arguments do not name. Without named
// providers it removes none.
func (l *locking) choose(root *installer.Root, engine sources.Engine) {
	if len(l.only) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	named := map[sources.Provider][]string{} // addresses as typed; a provider can have several spellings
	for _, address := range l.only {
		p, _ := sources.ParseProvider(address, engine) // was parsed before
		named[p] = append(named[p], address)
	}
	require := func(p sources.Provider) {
		for _, address := range named[p] {
			l.required[address] = true
		}
	}
	for _, p := range root.Unmanaged {
		require(p)
	}
	root.Requirements = slices.DeleteFunc(root.Requirements, func(r sources.Requirement) bool {
		require(r.Provider)
		if len(named[r.Provider]) == 0 {
			l.others = append(l.others, r.Provider)
		}
		return len(named[r.Provider]) == 0
	})
}

// note records the required providers of a root module, so that events can name it.
func (l *locking) note(dir string, root *installer.Root) {
	if !l.Flags.Recursive {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range root.Requirements {
		if _, known := l.modules[r.Provider]; !known {
			l.modules[r.Provider] = l.relative(dir)
		}
	}
}

// notRequired returns an error for named providers that no root module has required so far.
func (l *locking) notRequired() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for i, address := range l.only {
		if !l.required[address] && !slices.Contains(l.only[:i], address) {
			err := fmt.Errorf("the configuration does not require %s", address)
			if near := site.NearestAddress(address, l.others); near != "" {
				err = sources.WithHint(err, "did you mean %q?", near)
			} else if dir := l.NearestDir(address); dir != "" {
				err = sources.WithHint(err, "did you mean the directory %s?", dir)
			} else if len(l.others) > 0 {
				err = sources.WithHint(err, "name a provider that it requires, such as %s", l.others[0])
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// locker returns the locker with the configured sources of the root module.
func (l *locking) locker(m *site.Root, methods []sources.Method) (*installer.Locker, error) {
	return l.lockers.Get(job.SuppliedBy(m), func() (*installer.Locker, error) {
		store, keeps, err := l.lockStore(m)
		if err != nil {
			return nil, err
		}
		opts := m.InstallerOptions(l.report)
		opts.Upgrade = m.Flags.Upgrade
		if l.platforms != nil {
			opts.Platforms = l.platforms(m)
		}
		return &installer.Locker{
			Installer: installer.New(sources.NewMulti(methods), store, m.Client, opts),
			Keep:      keeps, Strict: l.Strict,
		}, nil
	})
}

// report shows each request and each warning once, even if many root modules cause it.
func (l *locking) report(e acquire.Event) {
	if e.Step == acquire.Querying || e.Step == acquire.Warned {
		said := fmt.Sprint(e.Step, e.Package, e.Text)
		l.mu.Lock()
		again := l.said[said]
		l.said[said] = true
		l.mu.Unlock()
		if again {
			return
		}
	}
	out := l.Output
	if module := l.moduleOf(e); module != "" {
		out = out.About([]string{module})
	}
	out.Event(e)
}

// moduleOf returns the root module of an event. If several root modules require a provider,
// it is the one that failed, or else the first of them.
func (l *locking) moduleOf(e acquire.Event) string {
	if len(e.Modules) > 0 && l.Flags.Recursive {
		return l.relative(e.Modules[0])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.modules[e.Package.Provider]
}

// lockStore returns the plugin cache, or a temporary directory if the plugin cache is not
// writable. It keeps packages for the platforms.
func (l *locking) lockStore(m *site.Root) (store installer.Cache, keeps []sources.Platform, err error) {
	var cache *cachedir.Dir
	if !l.Flags.NoCache {
		if cache, err = m.Cache(m.CacheRoot(), m.EngineCache()); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case cache != nil && !cache.ReadOnly() && l.Keep:
		return cache, m.Platforms(), nil
	case cache != nil && !cache.ReadOnly():
		return cache, []sources.Platform{sources.CurrentPlatform()}, nil
	}
	own, err := l.openScratch(m)
	if err != nil || cache == nil {
		return own, nil, err
	}
	return cachedir.Layered{Dir: cache, Own: own}, nil, nil
}

// openScratch opens a cache that is deleted when the command ends. All root modules share it,
// so that each package is downloaded only once.
func (l *locking) openScratch(m *site.Root) (*cachedir.Dir, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scratch == nil {
		scratch, err := disk.Temporary("larder-")
		if err != nil {
			return nil, err
		}
		l.scratch = scratch
	}
	return m.OpenCache(l.scratch.Path("cache"), func(o *cachedir.Options) {
		o.ReadOnly, o.Records = false, store.Records{} // no record outlives the run
	})
}

// closeScratch deletes the cache of openScratch.
func (l *locking) closeScratch() {
	if l.scratch != nil {
		l.scratch.Close()
	}
}

// sum prints the totals, and returns the problems that a check has found. Without them, it prints the last
// line only if that is requested.
func (l *locking) sum(conclude bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.WarnUnusedKeys()
	if len(l.tally.Platforms) == 0 { // all root modules failed
		l.tally.Platforms = sources.Texts(site.ThisIfNone(l.Flags.Platforms))
	}
	if l.Check {
		l.Output.LockProblems(l.problems)
	} else {
		l.Output.LockChanges(l.changes, l.Flags.DryRun)
	}
	if l.Check {
		l.tally.Problems = l.tally.missing + l.tally.Unknown + l.tally.CheckedOut
	}
	l.Output.Summary(l.tally.LockSum)
	if l.tally.Modules+l.tally.Failed == 0 {
		if l.Check {
			return errors.New("no lock file was checked")
		}
		return nil
	}
	if l.tally.Problems > 0 {
		return l.problemsFound()
	}
	if !conclude {
		return nil
	}
	if l.tally.Failed == 0 || l.Flags.Recursive {
		l.Output.Conclude("%s", l.tally.Text(l.Output))
	}
	if l.Check && len(l.Flags.Platforms) == 0 && !l.tally.Declared && l.tally.Failed == 0 {
		l.Output.AtLast(func() { l.Output.Hint("--platform OS_ARCH checks other platforms, too") })
	}
	return nil
}

// problemsFound returns the error of a check that found problems.
func (l *locking) problemsFound() error {
	t := &l.tally
	text := fmt.Sprintf("%s in %s, checked for %s", ui.Count(t.Problems, "problem"), ui.Count(t.Modules, "lock file"), ui.List("and", t.Platforms))
	if t.Failed > 0 {
		text += fmt.Sprintf("; %s failed", ui.Count(t.Failed, "root module"))
	}
	err := errors.New(text)
	switch {
	case t.outdated:
		err = sources.WithHint(err, "run the same command without --check to update the lock file")
	case t.completable:
		err = sources.WithHint(err, "run the same command without --check to add the missing hashes")
	}
	if t.Unknown > 0 {
		err = sources.WithHint(err, "%s", l.unknownHint())
	}
	if t.CheckedOut > 0 {
		err = sources.WithHint(err, "%s", checkoutHint)
	}
	return report.FoundError{Err: err}
}
