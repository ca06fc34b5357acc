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
			"methods. Archives whose hashes are recorded are not fetched again.",
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

// A locking is what the flags of lock ask for, and what has come of it so far.
type locking struct {
	*session
	only        []string // addresses; empty means all that are required
	keep        bool
	check       bool
	strict      bool
	dropUnknown bool

	lockers memo[string, *installer.Locker] // by what they are supplied by

	mu       sync.Mutex
	scratch  *disk.Scratch               // for what no cache can take; nil until it is needed
	said     map[string]bool             // events
	required map[string]bool             // which of only are
	others   []sources.Provider          // that are required and not named
	modules  map[sources.Provider]string // the first root module that requires it
	tally    tally
	changes  []ui.Row
	unknown  []unknownHash // in all lock files
}

// lock completes lock files, or checks them with --check. Flags are refused before
// anything is read.
func lock(c *cli.Context, out *ui.Output) (err error) {
	l := &locking{
		keep: c.Bool("keep"), check: c.Bool("check"), strict: c.Bool("strict"),
		dropUnknown: c.Bool("drop-unknown"), said: map[string]bool{}, required: map[string]bool{}, modules: map[sources.Provider]string{},
	}
	if err := exclusive(c, "check", "dry-run", "drop-unknown"); err != nil {
		return err
	}
	if err := exclusive(c, "keep", "no-cache"); err != nil {
		return err
	}
	if l.session, err = newSession(c, out); err != nil {
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
	if failed != nil { // what was found is shown, and may not be all there is
		if found != nil {
			out.Say("%v", found)
		}
		return failed
	}
	return errors.Join(l.notRequired(), found)
}

// take takes the arguments: root modules, and addresses of providers.
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
	} else {
		l.tally.Failed++
	}
	l.unknown = append(l.unknown, m.unknown()...)
	return func() {
		m.show(ctx)
		l.changes = append(l.changes, m.rows(out.Level == ui.Verbose)...)
	}, err
}

// relative is the path of a root module as seen from the working directory.
func (l *locking) relative(dir string) string {
	if relative, err := filepath.Rel(l.dir, dir); err == nil {
		return relative
	}
	return dir
}

// isFinding reports whether err says no more than that a lock file is wrong.
func isFinding(err error) bool {
	var conflict *installer.LockConflictError
	var mismatch *acquire.HashMismatchError
	var republished *acquire.RepublishedError
	return err != nil && !slices.ContainsFunc(sources.Errors(err), func(err error) bool {
		return !errors.As(err, &conflict) && !errors.As(err, &republished) && !(errors.As(err, &mismatch) && mismatch.By != "")
	})
}

// lock finds out what the lock file of a root module should contain and, unless that is
// only checked, writes it.
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
	if !l.flags.recursive && len(l.roots) < 2 { // else another root module may require what is named
		if err := l.notRequired(); err != nil {
			return err
		}
	}
	locker, err := l.locker(ctx, m)
	if err != nil {
		return err
	}
	root.DryRun = l.flags.readOnly
	locked.before, locked.engine = root.Lock, m.config.Engine
	locked.result, err = locker.Lock(ctx, *root)
	return m.explain(err)
}

// choose leaves of what is required the providers that are named, if any are.
func (l *locking) choose(root *installer.Root, engine sources.Engine) {
	if len(l.only) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	named := map[sources.Provider][]string{} // as typed; one provider may be spelled in several ways
	for _, address := range l.only {
		p, _ := sources.ParseProvider(address, engine) // has been parsed before
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

// note notes what a root module requires, so that events can name it.
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

// notRequired complains of providers that are named, and that no root module so
// far has required.
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

// locker is the one that asks whom the root module is configured to ask.
func (l *locking) locker(ctx context.Context, m *rootModule) (*installer.Locker, error) {
	from, err := m.source(ctx, nil)
	if err != nil {
		return nil, err
	}
	return l.lockers.get(m.suppliedBy(), func() (*installer.Locker, error) {
		store, keeps, err := l.lockStore(m)
		if err != nil {
			return nil, err
		}
		opts := m.installerOptions(l.report)
		opts.Upgrade = m.flags.upgrade
		return &installer.Locker{
			Installer: installer.New(from, store, m.client, opts),
			Keep:      keeps, Strict: l.strict, DropUnknown: l.dropUnknown,
		}, nil
	})
}

// report shows each question and each warning once, though many root modules may
// give rise to it.
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

// moduleOf is the root module that an event is about. If several root modules require a
// provider, it is the first of them to do so.
func (l *locking) moduleOf(e acquire.Event) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.modules[e.Package.Provider]
}

// lockStore is the plugin cache, or if that can take nothing a directory for a
// while. It keeps packages for the platforms.
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

// openScratch opens a cache that is deleted when the command ends. All root modules
// share it, so that no package is fetched twice.
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
	opts.ReadOnly, opts.Key = false, seal.Key{} // nothing of it outlives the run
	return l.openCache(l.scratch.Path("cache"), opts)
}

// closeScratch deletes the cache of openScratch.
func (l *locking) closeScratch() {
	if l.scratch != nil {
		l.scratch.Close()
	}
}

// sum writes what was done in all, and returns the problems that a check has found.
func (l *locking) sum() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.out.JSON {
		l.warnUnknown()
		l.showChanges()
	}
	if l.check {
		l.tally.Problems = l.tally.missing + l.tally.Unknown
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

// showChanges writes a line for each provider whose block has changed, or would. The
// standard output of a dry run is a patch, so there it goes to standard error.
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

// completeHint says how to complete lock files that a check found incomplete.
const completeHint = "run the same command without --check to add the missing hashes"
