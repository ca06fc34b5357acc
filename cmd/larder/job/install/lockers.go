package install

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// Lockers open what completes and checks lock files: one locker for root modules with the same sources. Lock and check
// use them.
type lockers struct {
	*site.Site
	LockRequest
	platforms func(*site.Root) []sources.Platform     // that lock files must have hashes for
	opened    sources.Memo[string, *installer.Locker] // by the sources of the root module

	noting  sync.Mutex
	scratch *disk.Scratch               // cache for packages that no other cache accepts; nil until first used
	modules map[sources.Provider]string // the first root module that requires it
}

func newLockers(s *site.Site, request LockRequest) *lockers {
	platforms, modules := (*site.Root).Platforms, map[sources.Provider]string{}
	return &lockers{Site: s, LockRequest: request, platforms: platforms, modules: modules}
}

// relative returns the path of a root module relative to the working directory.
func (l *lockers) relative(dir string) string {
	if relative, err := filepath.Rel(l.WorkDir, dir); err == nil {
		return relative
	}
	return dir
}

// open returns the locker of a root module with its sources.
func (l *lockers) open(ctx context.Context, m *site.Root) (*installer.Locker, []sources.Method, error) {
	methods, err := m.Methods(ctx)
	if err != nil {
		return nil, nil, err
	}
	locker, err := l.opened.Once(job.SuppliedBy(m), func() (*installer.Locker, error) {
		store, keeps, err := l.lockStore(m)
		if err != nil {
			return nil, err
		}
		opts := m.InstallerOptions(l.report)
		opts.Upgrade, opts.Platforms = m.Flags.Upgrade, l.platforms(m)
		return &installer.Locker{
			Installer: installer.New(sources.NewMulti(methods), store, m.Client, opts),
			Keep:      keeps, Strict: l.Strict,
		}, nil
	})
	return locker, methods, err
}

// complete determines the complete lock file for the requirements of a root module.
func (l *lockers) complete(ctx context.Context, m *site.Root, root *installer.Root, locked *lockedModule) error {
	locker, methods, err := l.open(ctx, m)
	if err != nil {
		return err
	}
	root.DryRun = l.Checks
	locked.before, locked.platforms, locked.declared = root.Lock, m.Platforms(), m.Declared()
	result, err := locker.Lock(ctx, *root)
	if err == nil && l.Flags.DryRun && !l.Check && result.Lock.Text != nil {
		err = installer.CannotWriteLock(root.Dir)
	}
	if err != nil && l.Flags.DryRun { // a real run would write nothing
		result.Lock = installer.LockChange{}
	}
	if locked.take(result); l.Strict {
		locked.checkedOut = servedHere(ctx, m, methods, root, result)
	}
	return m.Explain(err)
}

// note records the required providers of a root module, so that events can name it.
func (l *lockers) note(dir string, root *installer.Root) {
	if !l.Flags.Recursive {
		return
	}
	l.noting.Lock()
	defer l.noting.Unlock()
	for _, r := range root.Requirements {
		if _, known := l.modules[r.Provider]; !known {
			l.modules[r.Provider] = l.relative(dir)
		}
	}
}

// report shows each request and each warning once, even if many root modules cause it.
func (l *lockers) report(e acquire.Event) {
	if e.Step == acquire.Querying || e.Step == acquire.Warned {
		if !l.First(fmt.Sprint(e.Step, e.Package, e.Text)) {
			return
		}
	}
	// If several root modules require a provider, it is the one that failed, or else the first of them.
	l.noting.Lock()
	module := l.modules[e.Package.Provider]
	l.noting.Unlock()
	if len(e.Modules) > 0 && l.Flags.Recursive {
		module = l.relative(e.Modules[0])
	}
	out := l.Output
	if module != "" {
		out = out.About([]string{module})
	}
	out.Event(e)
}

// lockStore returns the plugin cache, or a temporary directory if the plugin cache is not
// writable. It keeps packages for the platforms.
func (l *lockers) lockStore(m *site.Root) (store installer.Cache, keeps []sources.Platform, err error) {
	cache, err := m.Cache()
	switch {
	case err != nil:
		return nil, nil, err
	case cache != nil && cache.ReadOnly() == nil && l.Keep:
		return cache, m.Platforms(), nil
	case cache != nil && cache.ReadOnly() == nil:
		return cache, []sources.Platform{sources.CurrentPlatform()}, nil
	}
	own, err := l.openScratch(m, cache)
	return own, nil, err
}

// openScratch opens a cache that is deleted when the command ends, over one that can't be written, if there is one. All
// root modules share it, so that each package is downloaded only once.
func (l *lockers) openScratch(m *site.Root, under *cachedir.Dir) (*cachedir.Dir, error) {
	l.noting.Lock()
	defer l.noting.Unlock()
	if l.scratch == nil {
		scratch, err := disk.Temporary("larder-")
		if err != nil {
			return nil, err
		}
		l.scratch = scratch
	}
	return m.OpenCache(l.scratch.Path("cache"), func(o *cachedir.Options) {
		o.ReadOnly, o.Records, o.Under = false, store.Records{}, under // no record outlives the run
	})
}

// closeScratch deletes the cache of openScratch.
func (l *lockers) closeScratch() {
	if l.scratch != nil {
		l.scratch.Close()
	}
}
