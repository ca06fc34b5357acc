package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Root is a root module for which providers are installed.
type Root struct {
	Dir          string // of the module, where its lock file is
	DataDir      string // of the engine, usually Dir/.terraform
	Requirements []sources.Requirement
	Unmanaged    []sources.Provider // also required, but run by a debugger or overridden, and so ignored
	StateUnread  bool               // there may be more requirements, so no lock entry is removed
	Elsewhere    bool               // engines run in another directory: packages are stored, and not installed in DataDir
	Lock         *lockfile.File
	LockMode     LockMode
	DryRun       bool // choose versions, write nothing
}

// A LockMode says what an installation may change in the lock file, which it writes only in the mode "".
type LockMode string

// The modes in which the lock file isn't written. With LockReadOnly, as in the engines, an installation fails if it
// would add or remove providers, and only warns if hashes or constraints would change. With LockFrozen, it fails then
// too.
const (
	LockReadOnly LockMode = "readonly"
	LockFrozen   LockMode = "frozen"
)

// providers returns all providers that the root module requires.
func (r *Root) providers() []sources.Provider {
	all := slices.Clone(r.Unmanaged)
	for _, req := range r.Requirements {
		all = append(all, req.Provider)
	}
	return all
}

// A Result describes the work for a root module.
type Result struct {
	Packages []Outcome
	Lock     LockChange
	Warnings []string

	// Incomplete are providers whose lock entry is new or changed and only has hashes
	// for the installed platforms: engines on other platforms refuse their packages.
	Incomplete []sources.Provider

	// Behind are providers for which a queried source lists a newer release than the chosen version. Without a
	// query, it is unknown.
	Behind []sources.Provider

	Unknown []UnknownHash // unknown hashes in the lock file; from a Locker
}

// A LockChange describes the change of a lock file.
type LockChange struct {
	lockfile.Change
	Written bool   // false if no change was required
	Path    string // of the file, if it was written or a dry run would write it

	Entries []lockfile.Entry // new entries, unsorted
	Text    []byte           // new text; nil if no change is required
}

// An Outcome is the result for one package.
type Outcome struct {
	Package sources.Stored
	How     How
	Link    sources.LinkMode // how it was linked into the working directory; empty if it was there already
	Source  string           // the queried source; empty if none was queried
	Size    int64            // of the archive in bytes, if it was fetched
	Offline bool             // the version was chosen among those on this machine only
}

// A How is the origin of a package.
type How string

// The origins of a package.
const (
	WasInstalled How = "already installed" // nothing was done
	FromStore    How = "from the cache"
	Fetched      How = "fetched"
	Planned      How = "would be fetched" // in a dry run
)

// A LockChangedError reports a lock file that requires a change that a read-only lock
// file does not allow.
type LockChangedError struct{ Change LockChange }

func (e *LockChangedError) Error() string {
	return "the dependency lock file is out of date: " + e.Change.String()
}

// Install installs what root requires. Providers fail separately: the error joins the
// errors of all, and the Result describes the successes. The lock file is written
// only if all succeeded. If a package is not signed as required, nothing is changed.
func (in *Installer) Install(ctx context.Context, root Root) (*Result, error) {
	err := in.rehearse(ctx, root.DryRun, func(quiet *Installer) error {
		root := root
		root.DryRun = true
		_, err := quiet.Install(ctx, root)
		return err
	})
	if err != nil {
		return &Result{}, err
	}
	if !root.DryRun {
		release, err := in.cache.Use(ctx)
		if err != nil {
			return &Result{}, err
		}
		defer release()
	}
	workdir := in.cache.Workdir(root.Dir, filepath.Join(root.DataDir, "providers"))
	jobs, result, err := in.runAll(ctx, root, workdir, (*job).run)
	if root.DryRun && refuses(err) {
		result = &Result{}
	}
	if err == nil {
		result.Lock.Entries = entries(root, jobs)
		result.Incomplete = incomplete(jobs)
		result.Lock.Text, result.Lock.Change = root.Lock.Update(result.Lock.Entries, in.engine)
		foresee(jobs, &result.Lock)
		err = writeLock(root, result)
		if err == nil && root.DryRun && result.Lock.Path != "" {
			err = CannotWriteLock(root.Dir)
		}
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

// runAll runs one job for each provider that root requires.
func (in *Installer) runAll(
	ctx context.Context, root Root, workdir sources.Workdir, run func(*job, context.Context) error,
) ([]job, *Result, error) {
	jobs := make([]job, len(root.Requirements))
	errs := concurrently(manyAtOnce, root.Requirements, func(i int, req sources.Requirement) error {
		jobs[i] = in.newJob(root, req, workdir)
		return in.failed(sources.PackageID{Provider: req.Provider}, run(&jobs[i], ctx), root.Dir)
	})
	result := &Result{}
	for i := range jobs {
		result.Packages = append(result.Packages, jobs[i].outcomes...)
		if jobs[i].behind {
			result.Behind = append(result.Behind, jobs[i].req.Provider)
		}
	}
	return jobs, result, cmp.Or(errors.Join(errs...), ctx.Err())
}

// entries returns the new entries of the lock file after the jobs.
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

// incomplete returns the installed providers whose entries have no hashes for other
// platforms. Entries with signed checksums are complete even if they list one
// platform.
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
			signed = signed || o.Package.Proof.Signed()
		}
		if len(hashes) == 0 && !(signed && archives) {
			all = append(all, j.req.Provider)
		}
	}
	return all
}

// foresee adds the providers to the changes of a dry run whose entries a real run certainly changes: it adds the h1:
// hash of a package that is fetched, if the entry has none. Whether it replaces other hashes is not known before.
func foresee(jobs []job, change *LockChange) {
	for i := range jobs {
		j := &jobs[i]
		planned := slices.ContainsFunc(j.outcomes, func(o Outcome) bool { return o.How == Planned })
		changed := slices.Contains(change.Added, j.req.Provider) || slices.Contains(change.Changed, j.req.Provider)
		if planned && !changed && !sources.AnyOf(sources.H1, j.locked.Hashes) {
			change.Changed = append(change.Changed, j.req.Provider)
		}
	}
}

// CannotWriteLock returns why the lock file of the root module in dir can't be written, as far as that can be found out
// without writing.
func CannotWriteLock(dir string) error {
	d, err := disk.Open(dir)
	if err == nil {
		err = d.Replaceable(lockfile.Name)
		d.Close()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Join(dir, lockfile.Name), disk.Cause(err))
	}
	return nil
}

// writeLock writes the text in result to the lock file of an engine.
func writeLock(root Root, result *Result) error {
	switch change := result.Lock; {
	case change.Text == nil && change.None(), root.LockMode == LockReadOnly && change.None():
		return nil
	case root.LockMode == LockFrozen, root.LockMode == LockReadOnly && len(change.Added)+len(change.Removed) > 0:
		return &LockChangedError{result.Lock}
	case root.LockMode == LockReadOnly:
		result.Warnings = append(result.Warnings,
			"the dependency lock file was left as it is: "+result.Lock.String())
		return nil
	}
	path := filepath.Join(root.Dir, lockfile.Name)
	if root.DryRun {
		result.Lock.Path = path
		return nil
	}
	if err := lockfile.Write(path, result.Lock.Text); err != nil {
		return fmt.Errorf("writing %w", err)
	}
	result.Lock.Written, result.Lock.Path = true, path
	return nil
}

// String lists the changes, as those of a file that isn't written.
func (c LockChange) String() string {
	if c.None() {
		return "its first line, which names the engine, would change"
	}
	shown := c.Shown()
	var parts []string
	for _, kind := range []struct {
		text      string
		providers []sources.Provider
	}{
		{"%s would be added", shown.Added}, {"%s would be removed", shown.Removed},
		{"hashes or constraints of %s would change", shown.Changed},
	} {
		if len(kind.providers) > 0 {
			parts = append(parts, fmt.Sprintf(kind.text, strings.Join(sources.Texts(kind.providers), ", ")))
		}
	}
	return strings.Join(parts, "; ")
}
