package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A targetCache is the plugin cache that a job is about.
type targetCache struct {
	*rootModule
	path  string
	cache *cachedir.Dir // nil if it does not exist
}

// findCache returns the path of the cache. It neither creates nor opens the cache.
func findCache(ctx context.Context, s *Session) (*targetCache, error) {
	m, err := s.here(ctx)
	switch {
	case err != nil:
		return nil, err
	case m.flags.NoCache:
		return nil, report.Usage(errors.New("cache commands need a plugin cache, so --no-cache can't be used"))
	case m.cacheRoot() == "":
		return nil, errNoPlace
	}
	return &targetCache{rootModule: m, path: m.cacheRoot()}, nil
}

// CachePath shows the path of the cache.
func CachePath(ctx context.Context, s *Session) error {
	k, err := findCache(ctx, s)
	if err == nil {
		s.output.Show(report.CachePath{Path: k.path})
	}
	return err
}

// openCache opens the cache if it exists, and otherwise says that there is none. It opens
// the cache read-only unless the job changes it.
func openCache(ctx context.Context, s *Session, changes bool) (*targetCache, error) {
	k, err := findCache(ctx, s)
	if err != nil {
		return nil, err
	}
	k.flags.ReadOnly = k.flags.ReadOnly || !changes
	if _, err := os.Stat(k.path); errors.Is(err, fs.ErrNotExist) {
		s.output.Say("the plugin cache %s does not exist yet", k.path)
		return k, nil
	}
	if err := checkCache(k.path); err != nil {
		return k, err
	}
	k.cache, err = k.openCache(k.path, func(o *cachedir.Options) { o.Shared = k.engineCache() })
	return k, err
}

// checkCache refuses a directory that is not a plugin cache: it has files, and neither
// records of Larder nor a package. Its files would be foreign ones,
// which larder cache repair moves away.
func checkCache(path string) error {
	entries, _ := os.ReadDir(path) // opening the cache reports an error
	if _, err := os.Lstat(filepath.Join(path, ".larder")); err == nil || len(entries) == 0 || hasPackages(path) {
		return nil
	}
	return sources.WithHint(fmt.Errorf("%s is not a plugin cache: it contains other files and no packages", path), "name the plugin cache with --cache, or use an empty directory")
}

// use returns which root modules use the cache: the registered ones, those with views, and those
// found in directories, as typed.
func (k *targetCache) use(ctx context.Context, dirs []string) (cachedir.ListOptions, error) {
	opts := cachedir.ListOptions{Locked: selections}
	var err error
	if opts.Roots, _, err = viewUsers(k.machine); err != nil {
		return opts, err
	}
	for _, dir := range dirs {
		found, err := k.findRoots(ctx, dir)
		if err != nil {
			return opts, err
		}
		opts.Roots = append(opts.Roots, found...)
	}
	return opts, nil
}

// findRoots searches a directory for root modules that an engine or larder has
// initialized. Root modules with an installation by larder are registered in the cache, and
// need no search.
func (k *targetCache) findRoots(ctx context.Context, dir string) ([]cachedir.Root, error) {
	path, err := Existing(k.dir, dir, Directory, "name a directory that contains root modules")
	if err != nil {
		return nil, err
	}
	k.out.Detail("looking for root modules in %s", dir)
	found, err := cachedir.FindRoots(ctx, path)
	if err == nil && len(found) == 0 {
		k.out.Warn("no root module in or below %s has been initialized", dir)
	}
	return found, err
}

// selections returns the versions that the lock file in dir selects.
func selections(dir string) (cachedir.Selections, error) {
	return selectedBy(filepath.Join(dir, lockfile.Name))
}

// selectedBy returns the versions that the lock file at path selects.
func selectedBy(path string) (cachedir.Selections, error) {
	file, ds := lockfile.Read(path)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	selected := cachedir.Selections{}
	for _, e := range file.Entries() {
		selected[e.Provider] = e.Version
	}
	return selected, nil
}

// ShowCacheStats adds up the cache. It plans a prune, so that both jobs show the same numbers.
func ShowCacheStats(ctx context.Context, s *Session, roots []string) error {
	k, err := openCache(ctx, s, false)
	if err != nil || k.cache == nil {
		return err
	}
	use, err := k.use(ctx, roots)
	if err != nil {
		return err
	}
	plan, err := k.plan(ctx, cachedir.Policy{ListOptions: use})
	if err != nil {
		return err
	}
	use.Listed = plan.Listing
	v, err := k.examined(ctx, use)
	if err != nil {
		return err
	}
	s.output.Stats(k.path, plan)
	k.tellProblems(v)
	if plan.Blocked != nil {
		s.output.WarnOf(fmt.Errorf("larder cache prune would fail: %w", plan.Blocked))
	}
	return nil
}
