package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A Root is a root module that may use packages of the cache.
type Root struct {
	Dir       string   `json:"dir,omitempty"`       // of the module, absolute; empty for a package to keep
	Providers string   `json:"providers,omitempty"` // directory of the installed packages, absolute
	Packages  []string `json:"packages,omitempty"`  // the last installed packages, as paths

	View bool `json:"-"` // Providers has links to the cache of the last larder exec, which may be another one

	other bool // another user registered it
}

// rootsDir is the directory in the state with what each user has registered, in a file: the root modules that use the
// cache, and the packages of [Dir.Keep], by their paths. All users read it, to keep packages of the others.
const rootsDir = "roots"

// A registry is what this user has registered. Of many root modules, it is written once a second at most, and when the
// Dir is closed. No package is removed until then.
type registry struct {
	*store.Ledger[Root]
	mu      sync.Mutex
	written time.Time
	release func() // lets packages be removed; nil if everything is written
}

const writeEvery = time.Second

// noProvider is the provider of all registrations, which are about root modules.
var noProvider sources.Provider

func registryOfThisUser() string { return strconv.Itoa(os.Geteuid()) + ".json" }

// registryIn returns the ledger with a file in rootsDir. That of this user doesn't have what other users wrote.
func (d *Dir) registryIn(file string) *store.Ledger[Root] {
	if d.state == nil {
		return store.NewLedger[Root](store.LedgerOptions{})
	}
	return store.NewLedger[Root](store.LedgerOptions{
		Dir: d.state.Path(rootsDir), File: file, Plain: true, ReadOnly: d.readOnly != nil,
		Lost:    "larder install -R writes it again",
		Exposed: d.shared && file == registryOfThisUser(),
		Open: func(make bool) (*disk.Dir, error) {
			if make {
				return d.state.MakeSub(rootsDir)
			}
			return d.state.Sub(rootsDir)
		},
	})
}

// Register records that the packages ids are installed for the root module. They
// count as in use as long as the module refers to them. It warns about a failure.
func (w *workdir) Register(ids []sources.PackageID) {
	d := w.d
	if d.readOnly != nil {
		return
	}
	if w.own.openTree(disk.Open) == nil {
		w.own.sweep.Do(w.own.removeLeftovers)
	}
	if d.state == nil || w.own.root == d.root || len(ids) == 0 {
		return
	}
	r := Root{Dir: w.root, Providers: w.own.root}
	for _, id := range ids {
		r.Packages = append(r.Packages, id.Path())
	}
	slices.Sort(r.Packages)
	d.roots.mu.Lock()
	defer d.roots.mu.Unlock()
	key := r.Dir + "\n" + r.Providers
	if old, err := d.roots.Find(noProvider, key); err == nil && slices.Equal(old.Packages, r.Packages) {
		return
	}
	d.roots.Set(noProvider, key, r)
	if d.roots.release == nil {
		release, err := d.Use(context.Background()) // the caller uses it, so this doesn't wait
		if err != nil {
			d.warn(err)
			return
		}
		d.roots.release = release
	}
	if d.opts.Now().Sub(d.roots.written) > writeEvery {
		d.writeRegistry()
	}
}

// completeRegistry writes what was registered and not written.
func (d *Dir) completeRegistry() {
	d.roots.mu.Lock()
	defer d.roots.mu.Unlock()
	if d.roots.release != nil {
		d.writeRegistry()
	}
}

// writeRegistry writes what was registered. The caller holds d.roots.mu.
func (d *Dir) writeRegistry() {
	d.roots.written = d.opts.Now()
	if err := d.roots.Write(context.Background()); err != nil && !d.denies(err) {
		d.warn(fmt.Errorf("registering the root module: %w", err))
	}
	d.roots.release()
	d.roots.release = nil
}

// Keep registers a package that a prune keeps although no root module uses it. The caller has called
// [Dir.Use] before the package was stored.
func (d *Dir) Keep(id sources.PackageID) error {
	if d.readOnly != nil {
		return d.unwritable()
	}
	d.roots.Set(noProvider, id.Path(), Root{Packages: []string{id.Path()}})
	return sources.InPackage(id, d.explainOwner(d.roots.Write(context.Background())))
}

// Kept returns the platforms for which this user has called Keep for packages of the version.
func (d *Dir) Kept(p sources.Provider, v sources.Version) (all []sources.Platform, err error) {
	entries, err := d.roots.All(noProvider)
	for _, at := range slices.Sorted(maps.Keys(entries)) {
		if id, ok := packageAt(at); ok && id.Provider == p && id.Version == v {
			all = append(all, id.Platform)
		}
	}
	return all, err
}

// Release reverts [Dir.Keep].
func (d *Dir) Release(id sources.PackageID) error {
	if d.readOnly != nil {
		return d.unwritable()
	}
	d.roots.Remove(noProvider, id.Path())
	return sources.InPackage(id, d.explainOwner(d.roots.Write(context.Background())))
}

// registered returns the registered root modules and the paths of the packages to keep. It skips what is invalid.
// gone has what this user has registered of root modules that no longer exist.
func (d *Dir) registered() (roots []Root, kept map[string]bool, gone []string, err error) {
	if d.state == nil {
		return nil, nil, nil, nil
	}
	names, err := store.Names(d.state, rootsDir)
	if err != nil {
		return nil, nil, nil, err
	}
	kept = map[string]bool{}
	for _, name := range names {
		user, isFile := strings.CutSuffix(name, ".json")
		if _, err := strconv.Atoi(user); !isFile || err != nil { // such as the lock
			continue
		}
		ledger, own := d.registryIn(name), name == registryOfThisUser()
		if own {
			ledger = d.roots.Ledger
			ledger.Refresh()
		}
		entries, err := ledger.All(noProvider)
		if err != nil && (own || !d.shared) {
			return nil, nil, nil, err // without this error, packages in use would be removed
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			r := entries[key]
			r.other = d.shared && !own
			_, statErr := os.Stat(r.Dir)
			switch {
			case r.Dir == "":
				kept[key] = true
			case !filepath.IsAbs(r.Dir) || !filepath.IsAbs(r.Providers):
			case !errors.Is(statErr, fs.ErrNotExist):
				roots = append(roots, r)
			case own:
				gone = append(gone, key)
			}
		}
	}
	return roots, kept, gone, nil
}

// mergeRoots merges both lists without duplicates.
func mergeRoots(registered, found []Root) (all []Root) {
	seen := map[[2]string]bool{}
	for _, r := range slices.Concat(registered, found) {
		if !r.other {
			r.Dir, r.Providers = disk.Real(r.Dir), disk.Real(r.Providers)
		}
		key := [2]string{r.Dir, r.Providers}
		if !seen[key] {
			all = append(all, r)
		}
		seen[key] = true
	}
	return all
}

// Selections are the versions that a dependency lock file selects.
type Selections map[sources.Provider]sources.Version

// A LockReader reads the dependency lock file of the root module in dir. Without a
// lock file there are no selections.
type LockReader func(dir string) (Selections, error)

// users has the directories of the root modules that use a package, by its path, or by that of a version with all
// platforms.
type users map[string][]string

// findUsers determines which packages the roots use, from their lock files and their
// installed packages. If a root can't be read, or another user registered it, the
// packages that were last installed for it count. It leaves out views of other caches.
func (l *lister) findUsers(roots []Root, locked LockReader) {
	uses, real := make([]use, len(roots)), disk.Real(l.root)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range roots {
		if !r.other { // what it leads to may be anything
			g.Go(func() error { uses[i] = l.use(r, real, locked); return nil })
		}
	}
	_ = g.Wait()
	for i, r := range roots {
		use := uses[i]
		if r.View && !use.linked {
			continue
		}
		l.Roots = append(l.Roots, r)
		if use.err != nil && len(r.Packages) == 0 {
			l.Unclear = append(l.Unclear, fmt.Errorf("cannot determine which packages %s uses: %w", r.Dir, use.err))
		}
		if use.err != nil || r.other {
			use.paths = append(use.paths, r.Packages...)
		}
		for _, at := range use.paths {
			l.users[at] = append(l.users[at], r.Dir)
		}
	}
}

// A use is what a root module uses.
type use struct {
	paths  []string // of its packages, those in the cache that links among them lead to, and those of locked versions
	linked bool     // a link leads to a package of the cache, which may no longer exist; true if that can't be read
	err    error    // what could not be read
}

// use reads what the root module uses of the cache, whose path without links is real.
func (d *Dir) use(r Root, real string, locked LockReader) (u use) {
	selected, lockErr := locked(r.Dir)
	for p, v := range selected {
		u.paths = append(u.paths, path.Join(p.String(), v.String()))
	}
	installed, err := below(r.Providers, platformDepth+1)
	for _, p := range installed {
		u.paths = append(u.paths, p)
		link := filepath.Join(r.Providers, filepath.FromSlash(p))
		to, err := os.Readlink(link)
		if err != nil {
			continue
		}
		u.linked = u.linked || isBelow(d.root, to) || isBelow(real, to)
		if target, err := disk.Resolve(link); err == nil {
			if rel, err := filepath.Rel(real, target); err == nil {
				u.paths = append(u.paths, filepath.ToSlash(rel))
			}
		}
	}
	u.linked, u.err = u.linked || err != nil, errors.Join(lockErr, err)
	return u
}

// of returns the directories of the root modules that use a package.
func (u users) of(id sources.PackageID) []string {
	all := slices.Concat(u[id.Path()], u[path.Dir(id.Path())])
	slices.Sort(all)
	return slices.Compact(all)
}

func isBelow(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// below lists the names that are the given number of levels below dir, as relative
// paths with forward slashes. A missing directory is not an error.
func below(dir string, levels int) (paths []string, err error) {
	root := dir + string(filepath.Separator) // it may be a link
	_ = filepath.WalkDir(root, func(full string, e fs.DirEntry, unread error) error {
		at, _ := filepath.Rel(dir, full) // which can't fail for what is below it
		at = filepath.ToSlash(at)
		switch {
		case errors.Is(unread, fs.ErrNotExist), at == "." && unread == nil:
		case unread != nil:
			err = errors.Join(err, unread)
		case strings.HasPrefix(e.Name(), "."):
			return skip(e)
		case strings.Count(at, "/") == levels-1:
			paths = append(paths, at)
			return skip(e)
		}
		return nil
	})
	return paths, err
}

// FindRoots returns dir and the directories below it that an engine has run in: those
// with a dependency lock file or a directory .terraform. It includes hidden
// directories and does not follow symlinks to directories. It returns an error for an
// unreadable directory, because a root module in it may use any package.
func FindRoots(ctx context.Context, dir string) ([]Root, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = disk.Resolve(dir)
	}
	if err == nil {
		_, err = os.ReadDir(dir) // fails if dir is not a directory
	}
	if err != nil {
		return nil, fmt.Errorf("looking for root modules: %w", err)
	}
	var found []string
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			err = fmt.Errorf("looking for root modules: %w", err)
			return sources.WithHint(err,
				"name only directories that you can read: larder can't tell which packages the others use")
		case ctx.Err() != nil:
			return ctx.Err()
		case e.Name() == sources.LockFile:
			found = append(found, filepath.Dir(path))
		case e.IsDir() && e.Name() == sources.DataDir && path != dir:
			found = append(found, filepath.Dir(path))
			return fs.SkipDir
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		}
		return nil
	})
	slices.Sort(found)
	var roots []Root
	for _, dir := range slices.Compact(found) {
		roots = append(roots, Root{Dir: dir, Providers: filepath.Join(dir, sources.DataDir, "providers")})
	}
	return roots, err
}
