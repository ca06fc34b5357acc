package cachedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// Selections are the versions that a dependency lock file selects.
type Selections map[sources.Provider]sources.Version

// A LockReader reads the dependency lock file of the root module in dir. Without a
// lock file there are no selections.
type LockReader func(dir string) (Selections, error)

// users holds which root modules use which packages.
type users struct {
	versions map[string][]string // from version path to directories of root modules; all platforms of the version are in use
	packages map[string][]string // from package path to directories of root modules

	installed map[string][]string // from directory of installed packages to their paths in it
	unclear   []error             // errors of root modules whose packages cannot be determined
}

// findUsers determines which packages the roots use, from their lock files and their
// installed packages. If a root can't be read, or another user registered it, the
// packages that were last installed for it count.
func (d *Dir) findUsers(roots []Root, locked LockReader) users {
	u := users{versions: map[string][]string{}, packages: map[string][]string{}, installed: map[string][]string{}}
	uses, real := make([]use, len(roots)), withoutLinks(d.root)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range roots {
		if !r.other { // what it leads to may be anything
			g.Go(func() error { uses[i] = r.use(real, locked); return nil })
		}
	}
	_ = g.Wait()
	for i, r := range roots {
		use := uses[i]
		for p, v := range use.selected {
			at := path.Join(p.String(), v.String())
			u.versions[at] = append(u.versions[at], r.Dir)
		}
		if !r.View { // its links save nothing
			u.installed[r.Providers] = use.installed
		}
		packages := slices.Concat(use.installed, use.targets)
		if use.err != nil && len(r.Packages) == 0 {
			u.unclear = append(u.unclear, fmt.Errorf("cannot determine which packages %s uses: %w", r.Dir, use.err))
		}
		if use.err != nil || r.other {
			packages = append(packages, r.Packages...)
		}
		for _, p := range packages {
			u.packages[p] = append(u.packages[p], r.Dir)
		}
	}
	return u
}

// A use is what a root module uses.
type use struct {
	selected  Selections
	installed []string // the paths of its packages
	targets   []string // the paths in the cache that links among them lead to
	err       error    // what could not be read
}

// use reads what the root module uses of the cache in a directory without links.
func (r Root) use(cache string, locked LockReader) (u use) {
	var lockErr error
	u.selected, lockErr = locked(r.Dir)
	u.installed, u.err = below(r.Providers, platformDepth+1)
	for _, p := range u.installed {
		link := filepath.Join(r.Providers, filepath.FromSlash(p))
		if _, err := os.Readlink(link); err != nil {
			continue
		}
		if target, err := disk.Resolve(link); err == nil {
			if rel, err := filepath.Rel(cache, target); err == nil {
				u.targets = append(u.targets, filepath.ToSlash(rel))
			}
		}
	}
	u.err = errors.Join(lockErr, u.err)
	return u
}

// of returns the directories of the root modules that use a package.
func (u users) of(id sources.PackageID) []string {
	all := slices.Concat(u.packages[id.Path()], u.versions[path.Dir(id.Path())])
	slices.Sort(all)
	return slices.Compact(all)
}

// keptMarks is the directory in the state with the marks of [Dir.Keep].
const keptMarks = "kept"

func keptPath(id sources.PackageID) string { return keptMarks + "/" + flat(id.Path()) }

// Keep marks a package, so that a prune keeps it although no root module uses it. The caller has called
// [Dir.Use] before the package was stored.
func (d *Dir) Keep(id sources.PackageID) error {
	if d.readOnly != nil {
		return d.unwritable()
	}
	if d.state.Exists(keptPath(id)) {
		return nil
	}
	return sources.InPackage(id, d.writeState(keptPath(id), nil))
}

// Kept returns the platforms for which a user has marked packages of the version with Keep.
func (d *Dir) Kept(p sources.Provider, v sources.Version) (all []sources.Platform, err error) {
	if d.state == nil {
		return nil, nil
	}
	names, err := store.Names(d.state, keptMarks)
	for _, name := range names {
		id, ok := packageAt(strings.ReplaceAll(name, "~", "/"))
		if ok && id.Provider == p && id.Version == v {
			all = append(all, id.Platform)
		}
	}
	slices.SortFunc(all, sources.Platform.Compare)
	return all, err
}

// Release removes the mark of Keep. Nothing else of the package changes.
func (d *Dir) Release(id sources.PackageID) error {
	if d.readOnly != nil {
		return d.unwritable()
	}
	return sources.InPackage(id, d.explainOwner(d.removeState(keptPath(id))))
}

// removeState removes a file of the state, and its directory if that is empty afterwards.
func (d *Dir) removeState(name string) error {
	if err := d.state.Remove(name); err != nil {
		return err
	}
	return d.state.RemoveEmpty(path.Dir(name))
}

// isLinkedFrom reports whether a view has a link to a package of the cache, which may no longer exist.
func (d *Dir) isLinkedFrom(view string) bool {
	links, err := below(view, platformDepth+1)
	return err != nil || slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(filepath.Join(view, filepath.FromSlash(link)))
		return err == nil && (isBelow(d.root, target) || isBelow(withoutLinks(d.root), target))
	})
}

func isBelow(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// withoutLinks returns a path without links, or the path itself if it does not exist.
func withoutLinks(path string) string {
	if real, err := disk.Resolve(path); err == nil {
		return real
	}
	return path
}

// below lists the names that are the given number of levels below dir, as relative
// paths with forward slashes. A missing directory is not an error.
func below(dir string, levels int) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if levels == 1 {
			paths = append(paths, e.Name())
			continue
		}
		if !e.IsDir() {
			continue
		}
		inner, innerErr := below(filepath.Join(dir, e.Name()), levels-1)
		err = errors.Join(err, innerErr)
		for _, p := range inner {
			paths = append(paths, path.Join(e.Name(), p))
		}
	}
	return paths, err
}
