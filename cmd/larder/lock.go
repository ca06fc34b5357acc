package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
)

func lockCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "lock",
		Category:  forModules,
		Usage:     "add hashes for any platform to lock files",
		ArgsUsage: "[PATH | ADDRESS]... [FLAG...]",
		UsageText: "larder lock --platform linux_amd64,darwin_arm64",
		Description: "Does what terraform providers lock does, and uses the configured installation\n" +
			"methods. Archives whose hashes are recorded are not fetched again. --upgrade\n" +
			"locks a new version for each platform that the old one was locked for.",
		Flags: slices.Concat(treeFlags(), []cli.Flag{upgradeFlag()}, trustFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "keep", Usage: "keep packages for other platforms in the plugin cache"},
			&cli.BoolFlag{Name: "check", Usage: "report missing and unknown hashes, change nothing"},
			&cli.BoolFlag{Name: "strict", Usage: "fetch packages of other platforms to identify hashes"},
			&cli.BoolFlag{Name: "drop-unknown", Usage: "remove hashes that no signature or package covers"},
			dryRunFlag("show how lock files would change"),
		}),
		Action: func(c *cli.Context) error { return lock(c, out) },
	}
}

// A locking contains the flags of lock, and its results so far.
type locking struct {
	*session
	only        []string // addresses; empty means all required providers
	keep        bool
	check       bool
	strict      bool
	dropUnknown bool

	lockers memo[string, *installer.Locker] // by the sources of the root module

	mu       sync.Mutex
	scratch  *disk.Scratch               // cache for packages that no other cache accepts; nil until first used
	said     map[string]bool             // events that were shown
	required map[string]bool             // the addresses in only that a root module requires
	others   []sources.Provider          // required, but not in only
	modules  map[sources.Provider]string // the first root module that requires it
	tally    tally
	changes  []ui.Row
	unknown  []unknownHash // in all lock files
}

// lock completes lock files, or checks them with --check. It checks the flags before it
// reads anything.
func lock(c *cli.Context, out *ui.Output) (err error) {
	l := &locking{
		keep: c.Bool("keep"), check: c.Bool("check"), strict: c.Bool("strict"),
		dropUnknown: c.Bool("drop-unknown"), said: map[string]bool{}, required: map[string]bool{}, modules: map[sources.Provider]string{},
	}
	if err := exclusive(c, "check", "dry-run", "drop-unknown"); err != nil {
		return err
	}
	if l.session, err = newSession(c, out); err != nil {
		return err
	}
	if err := exclusive(c, "keep", "no-cache"); err != nil {
		return err
	}
	if err := l.take(c.Args().Slice()); err != nil {
		return err
	}
	defer l.closeScratch()
	l.tally.Platforms = sources.Texts(thisIfNone(l.flags.platforms))
	l.tally.Check, l.tally.DryRun = l.check, l.flags.dryRun
	failed := l.each(c.Context, l.at)
	found := l.sum()
	if failed != nil { // show the results so far, which may be incomplete
		if found != nil {
			out.Say("%v", found)
		}
		return failed
	}
	return errors.Join(l.notRequired(), found)
}

// take reads the arguments: root modules, and addresses of providers.
func (l *locking) take(args []string) error {
	roots, addresses, err := l.separate(args)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		if _, _, versioned := sources.CutVersion(address); versioned {
			err := fmt.Errorf("%s: lock takes addresses without a version", address)
			return usageError{sources.WithHint(err, "larder lock keeps the locked version; with --upgrade it chooses the newest that the configuration allows")}
		}
		if _, err := sources.ParseProvider(address, sources.Terraform); err != nil {
			return usageError{err}
		}
	}
	l.only = addresses
	return l.takeRoots(roots)
}

// at locks for the root module in dir.
func (l *locking) at(ctx context.Context, dir string, out *ui.Output) (show func(), err error) {
	m := &lockedModule{out: out, file: filepath.Join(dir, lockfile.Name), check: l.check, dryRun: l.flags.dryRun}
	if l.flags.recursive {
		m.module = l.relative(dir)
	}
	err = l.lock(ctx, dir, m)
	if l.check && isFinding(err) {
		m.wrong, err = err, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.tally.add(m)
		if m.result != nil {
			l.signers.sawAll(m.result.Packages)
		}
	} else {
		l.tally.Failed++
	}
	l.unknown = append(l.unknown, m.unknown()...)
	return func() {
		m.show(ctx)
		l.changes = append(l.changes, m.rows(out.Level == ui.Verbose)...)
	}, err
}

// relative returns the path of a root module relative to the working directory.
func (l *locking) relative(dir string) string {
	if relative, err := filepath.Rel(l.dir, dir); err == nil {
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
		return !errors.As(err, &conflict) && !errors.As(err, &republished) && !(errors.As(err, &mismatch) && mismatch.By != "")
	})
}

// lock determines the complete lock file of a root module. Unless this is a check, it writes
// the file.
func (l *locking) lock(ctx context.Context, dir string, locked *lockedModule) error {
	m, err := l.root(ctx, dir, locked.out)
	if err != nil {
		return err
	}
	root, err := m.needs(ctx)
	if err != nil || root == nil {
		return err
	}
	l.choose(root, m.config.Engine)
	l.note(dir, root)
	if !l.flags.recursive && len(l.roots) < 2 { // otherwise another root module may require the named providers
		if err := l.notRequired(); err != nil {
			return err
		}
	}
	methods, err := m.methods(ctx)
	if err != nil {
		return err
	}
	locker, err := l.locker(m, methods)
	if err != nil {
		return err
	}
	root.DryRun = l.flags.readOnly
	locked.before, locked.engine = root.Lock, m.config.Engine
	locked.result, err = locker.Lock(ctx, *root)
	l.judgeCheckout(ctx, m, methods, root, locked)
	return m.explain(err)
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
	if !l.flags.recursive {
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
			if near := nearestAddress(address, l.others); near != "" {
				err = sources.WithHint(err, "did you mean %q?", near)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// locker returns the locker with the configured sources of the root module.
func (l *locking) locker(m *rootModule, methods []sources.Method) (*installer.Locker, error) {
	return l.lockers.get(m.suppliedBy(), func() (*installer.Locker, error) {
		store, keeps, err := l.lockStore(m)
		if err != nil {
			return nil, err
		}
		opts := m.installerOptions(l.report)
		opts.Upgrade = m.flags.upgrade
		return &installer.Locker{
			Installer: installer.New(sources.NewMulti(methods), store, m.client, opts),
			Keep:      keeps, Strict: l.strict, DropUnknown: l.dropUnknown,
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
	out := l.out
	if module := l.moduleOf(e); module != "" {
		out = out.About([]string{module})
	}
	out.Event(e)
}

// moduleOf returns the root module of an event. If several root modules require a provider,
// it is the first of them.
func (l *locking) moduleOf(e acquire.Event) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.modules[e.Package.Provider]
}

// lockStore returns the plugin cache, or a temporary directory if the plugin cache is not
// writable. It keeps packages for the platforms.
func (l *locking) lockStore(m *rootModule) (store installer.Cache, keeps []sources.Platform, err error) {
	var cache *cachedir.Dir
	if !l.flags.noCache {
		if cache, err = m.cache(m.cacheRoot(), m.engineCache()); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case cache != nil && !cache.ReadOnly() && l.keep:
		return cache, thisIfNone(l.flags.platforms), nil
	case cache != nil && !cache.ReadOnly():
		return cache, []sources.Platform{sources.CurrentPlatform()}, nil
	}
	own, err := l.openScratch(m)
	if err != nil || cache == nil {
		return own, nil, err
	}
	return layered{cache, own}, nil, nil
}

// openScratch opens a cache that is deleted when the command ends. All root modules share it,
// so that each package is downloaded only once.
func (l *locking) openScratch(m *rootModule) (*cachedir.Dir, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scratch == nil {
		scratch, err := disk.Temporary("larder-")
		if err != nil {
			return nil, err
		}
		l.scratch = scratch
	}
	opts, err := m.cacheOptions()
	if err != nil {
		return nil, err
	}
	opts.ReadOnly, opts.Key = false, seal.Key{} // no record outlives the run
	return l.openCache(l.scratch.Path("cache"), opts)
}

// closeScratch deletes the cache of openScratch.
func (l *locking) closeScratch() {
	if l.scratch != nil {
		l.scratch.Close()
	}
}

// sum prints the totals, and returns the problems that a check has found.
func (l *locking) sum() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.warnUnusedKeys()
	if !l.out.JSON {
		l.warnUnknown()
		l.showChanges()
	}
	if l.check {
		l.tally.Problems = l.tally.missing + l.tally.Unknown + l.tally.CheckedOut
	}
	l.out.Summary(&l.tally)
	if l.tally.Modules+l.tally.Failed == 0 {
		if l.check {
			return errors.New("no lock file was checked")
		}
		return nil
	}
	if l.tally.Problems > 0 {
		return l.problemsFound()
	}
	if l.tally.Failed == 0 || l.flags.recursive {
		l.out.Conclude("%s", l.tally.text(l.out))
	}
	if l.check && len(l.flags.platforms) == 0 && l.tally.Failed == 0 {
		l.out.AtLast(func() { l.out.Hint("--platform OS_ARCH checks other platforms, too") })
	}
	return nil
}

// showChanges prints a line for each provider whose block has changed, or would change. It
// prints to standard error in a dry run, because standard output is a patch.
func (l *locking) showChanges() {
	columns := changeColumns
	if l.check {
		columns = problemColumns
	}
	if l.flags.dryRun {
		l.out.Tell(columns, l.changes)
		return
	}
	l.out.Grid("change", columns, l.changes)
}

// completeHint returns how to complete the lock files that a check found incomplete.
const completeHint = "run the same command without --check to add the missing hashes"
