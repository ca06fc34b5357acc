package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A Root is a root module to install providers for.
type Root struct {
	Dir          string // of the module, where its lock file is
	DataDir      string // the engine's, usually Dir/.terraform
	Requirements []sources.Requirement
	Unmanaged    []sources.Provider // required too, but run by a debugger or overridden: nothing is done about them
	StateUnread  bool               // there may be more requirements: no lock entry is removed
	Lock         *lockfile.File
	ReadOnlyLock bool
	DryRun       bool // choose, and write nothing
}

// providers are all that the root module requires.
func (r *Root) providers() []sources.Provider {
	all := slices.Clone(r.Unmanaged)
	for _, req := range r.Requirements {
		all = append(all, req.Provider)
	}
	return all
}

// A Result is what was done for a root module.
type Result struct {
	Packages []Outcome
	Lock     LockChange
	Warnings []string

	// Incomplete are providers whose lock entry is new or changed, and has hashes of the
	// packages that were installed alone: engines on other platforms refuse theirs.
	Incomplete []sources.Provider

	Unknown  []UnknownHash // hashes in the lock file that nothing covers; a Locker's
	Examined []Outcome     // packages of other platforms, fetched to identify hashes; a strict Locker's
}

// A LockChange is how the lock file differs from what it was.
type LockChange struct {
	lockfile.Change
	Written bool   // false if it was to be left as it is
	Path    string // of the file, if it was written

	Entries []lockfile.Entry // that it shall hold, in no order
	Text    []byte           // that it shall be; nil if it is to be left as it is
}

// An Outcome is what was done for one package.
type Outcome struct {
	Package sources.Stored
	How     How
	Link    sources.LinkMode // how it got into the working directory; empty if it was there
	KeyID   string           // of the key that signed it; empty if it is unsigned
	Source  string           // that was queried for it; empty if none was
	Size    int64            // of the archive in bytes, if it was fetched
}

// A How says where a package was found.
type How string

// The ways to get a package.
const (
	WasInstalled How = "already installed" // nothing was done
	FromStore    How = "from the cache"
	Fetched      How = "fetched"
	Planned      How = "would be fetched" // a dry run's
)

// A LockChangedError is a lock file that would have to change in a way that
// a read-only lock file does not allow.
type LockChangedError struct{ Change LockChange }

func (e *LockChangedError) Error() string {
	return "the dependency lock file is out of date: " + e.Change.String()
}

// Install installs what root requires. Providers fail one by one: the error
// joins what went wrong with each, the Result says what went well, and the lock
// file is written only if all did.
func (in *Installer) Install(ctx context.Context, root Root) (*Result, error) {
	if !root.DryRun {
		release, err := in.cache.Use(ctx)
		if err != nil {
			return &Result{}, err
		}
		defer release()
	}
	workdir := in.cache.Workdir(root.Dir, filepath.Join(root.DataDir, "providers"))
	jobs, result, err := in.runAll(ctx, root, workdir, (*job).run)
	if err == nil {
		result.Lock.Entries = entries(root, jobs)
		result.Incomplete = incomplete(jobs)
		result.Lock.Text, result.Lock.Change = root.Lock.Update(result.Lock.Entries, in.opts.Engine)
		err = writeLock(root, result)
	}
	if !root.DryRun {
		var ids []sources.PackageID
		for _, p := range result.Packages {
			ids = append(ids, p.Package.ID)
		}
		workdir.Register(ids)
	}
	return result, errors.Join(err, workdir.Close())
}

// runAll does one job for each provider that root requires.
func (in *Installer) runAll(ctx context.Context, root Root, workdir sources.Workdir, run func(*job, context.Context) error) ([]job, *Result, error) {
	jobs := make([]job, len(root.Requirements))
	errs := make([]error, len(root.Requirements))
	var wg sync.WaitGroup
	for i, req := range root.Requirements {
		jobs[i] = in.newJob(root, req, workdir)
		wg.Go(func() {
			if errs[i] = run(&jobs[i], ctx); errs[i] != nil {
				in.acquirer.Report(acquire.Event{Step: acquire.Failed, Package: sources.PackageID{Provider: req.Provider}, Err: errs[i]})
			}
		})
	}
	wg.Wait()

	result := &Result{}
	for i := range jobs {
		result.Packages = append(result.Packages, jobs[i].outcomes...)
	}
	return jobs, result, cmp.Or(errors.Join(errs...), ctx.Err())
}

// entries are what the lock file shall hold once the jobs are done.
func entries(root Root, jobs []job) []lockfile.Entry {
	entries := make([]lockfile.Entry, len(jobs))
	for i := range jobs {
		entries[i] = jobs[i].entry()
	}
	for _, p := range root.Unmanaged {
		if locked, ok := root.Lock.Entry(p); ok {
			entries = append(entries, locked)
		}
	}
	if root.StateUnread {
		entries = append(entries, root.Lock.Rest(entries)...)
	}
	return entries
}

// incomplete are the providers that were installed and whose entries have no hashes for
// other platforms. Where signed checksums were locked there may be no other platform.
func incomplete(jobs []job) []sources.Provider {
	var all []sources.Provider
	for i := range jobs {
		j := &jobs[i]
		if !j.changed || j.root.DryRun {
			continue
		}
		hashes := j.entry().Hashes
		signed, archives := false, sources.AnyOf(sources.ZH, hashes)
		for _, o := range j.outcomes {
			hashes = without(hashes, o.Package)
			signed = signed || o.Package.Verdict >= sources.MirrorEvidence
		}
		if len(hashes) == 0 && !(signed && archives) {
			all = append(all, j.req.Provider)
		}
	}
	return all
}

// writeLock makes the lock file what the result says that it shall be.
func writeLock(root Root, result *Result) error {
	switch change := result.Lock; {
	case change.Text == nil, root.ReadOnlyLock && change.None():
		return nil
	case root.ReadOnlyLock && (len(change.Added) > 0 || len(change.Removed) > 0):
		return sources.WithHint(&LockChangedError{result.Lock}, "run larder install without --lockfile readonly, and keep the new lock file")
	case root.ReadOnlyLock:
		result.Warnings = append(result.Warnings, "the dependency lock file is out of date and was left as it is: "+result.Lock.String())
		return nil
	case root.DryRun:
		return nil
	}
	path := filepath.Join(root.Dir, lockfile.Name)
	if err := lockfile.Write(path, result.Lock.Text); err != nil {
		return fmt.Errorf("writing %w", err)
	}
	result.Lock.Written, result.Lock.Path = true, path
	return nil
}

// String lists what changes.
func (c LockChange) String() string {
	if c.None() {
		return "its first line" // which names the engine
	}
	var parts []string
	for _, kind := range []struct {
		verb      string
		providers []sources.Provider
	}{{"add", c.Added}, {"remove", c.Removed}, {"change", c.Changed}} {
		if len(kind.providers) > 0 {
			parts = append(parts, kind.verb+" "+strings.Join(sources.Texts(kind.providers), ", "))
		}
	}
	return strings.Join(parts, "; ")
}
