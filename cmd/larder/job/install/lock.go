package install

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A locking is one run of lock, with its results so far.
type locking struct {
	*lockers
	only []string // addresses; empty means all required providers

	mu       sync.Mutex         // of the next two
	required map[string]bool    // the addresses in only that a root module requires
	others   []sources.Provider // required, but not in only

	tally    tally
	changes  []LockChange
	problems []report.Finding
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
	l := &locking{lockers: newLockers(s, request), required: map[string]bool{}}
	l.Reading.Certain, l.Reading.Empty, l.Locks = request.Check, s.Flags.AllowEmpty, true
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
			return report.Usage(sources.WithHint(err,
				"leave it out: lock keeps the locked version; with --upgrade it chooses the newest that the configuration allows"))
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
	if err != nil { // nothing was written, and a check of the others is not complete
		m.changes = nil
	}
	if err == nil && m.result != nil {
		l.Signers.SawAll(m.result.Packages)
	}
	return func() {
		m.show(ctx)
		l.tally.add(m, err != nil)
		l.changes, l.problems = append(l.changes, m.changes...), append(l.problems, m.problems(true)...)
	}, err
}

// isFinding reports whether check has rules for all that err says of a lock file.
func isFinding(err error) bool {
	return err != nil && !slices.ContainsFunc(sources.Errors(err), func(err error) bool {
		return errorFinding(sources.Provider{}, sources.Version{}, err).Kind == ""
	})
}

// lock determines the complete lock file of a root module. Unless this is a check, it writes
// the file.
func (l *locking) lock(ctx context.Context, dir string, locked *lockedModule) error {
	m, err := l.Root(ctx, dir, locked.out)
	if err != nil {
		return err
	}
	root, err := m.NeedsIfAny(ctx, l.Flags.Recursive) // others have something to do
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
	return l.complete(ctx, m, root, locked)
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
		p = meant(p, address, root.Requirements)
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

// meant returns the required provider that an address means: p, or for a type without a namespace the only one of
// that type, as hints and modules name it.
func meant(p sources.Provider, address string, required []sources.Requirement) sources.Provider {
	other := func(r sources.Requirement) bool { return r.Provider.Type != p.Type }
	same := slices.DeleteFunc(slices.Clone(required), other)
	if len(same) == 1 && !strings.Contains(address, "/") {
		return same[0].Provider
	}
	return p
}

// notRequired returns an error for named providers that no root module has required so far.
func (l *locking) notRequired() error {
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

// sum prints the totals, and returns the problems that a check has found. Without them, it prints the last
// line only if that is requested.
func (l *locking) sum(conclude bool) error {
	l.WarnUnusedKeys()
	if len(l.tally.Platforms) == 0 { // all root modules failed
		l.tally.Platforms = sources.Texts(site.ThisIfNone(l.Flags.Platforms))
	}
	if l.Check {
		report.Table(l.Output, l.problems)
	} else if l.Flags.DryRun { // standard output is for patches
		report.TableAside(l.Output, l.changes)
	} else {
		report.Table(l.Output, l.changes)
	}
	l.Output.Summary(l.tally.LockSum)
	if l.tally.Modules+l.tally.Failed == 0 {
		if l.Check && !l.Flags.AllowEmpty {
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
		l.Output.Conclude("%s", l.tally.text(l.Output))
	}
	if l.Check && len(l.Flags.Platforms) == 0 && !l.tally.declared && l.tally.Failed == 0 {
		l.Output.AtLast(func() { l.Output.Hint("--platform OS_ARCH checks other platforms, too") })
	}
	return nil
}

// problemsFound returns the error of a check that found problems.
func (l *locking) problemsFound() error {
	t := &l.tally
	where := fmt.Sprintf("in %s, checked for %s", ui.Count(t.Modules, "lock file"), ui.List("and", t.Platforms))
	if t.Failed > 0 {
		where += fmt.Sprintf("; %s failed", ui.Count(t.Failed, "root module"))
	}
	var hints []string
	if t.CheckedOut > 0 {
		hints = append(hints, checkoutHint)
	}
	if t.Unknown > 0 {
		hints = append(hints, l.unknownHint())
	}
	if t.outdated {
		hints = append(hints, "run the same command without --check to update the lock file")
	} else if t.completable {
		hints = append(hints, "run the same command without --check to add the missing hashes")
	}
	return report.Found(t.Problems, "problem", where, hints...)
}
