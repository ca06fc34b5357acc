package site

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// Store returns the store for packages: the plugin cache, or without one that can be written the working directory,
// which has the layout of a cache. The caller must call done when it has finished.
func (m *Root) Store() (store installer.Cache, done func(), err error) {
	cache, err := m.Cache()
	if err != nil {
		return nil, nil, err
	}
	writable := cache != nil && cache.ReadOnly() == nil
	if cache != nil && m.Flags.ReadOnly && (m.Flags.DryRun || m.asks) { // a run that writes would choose the cache
		writable = cachedir.Unwritable(m.CacheRoot(), false) == nil
	}
	if writable {
		return cache, func() {}, nil
	}
	opts, err := m.cacheOptions() // records are in the user's state directory: this one may be a checkout of others
	if err != nil {
		return nil, nil, err
	}
	opts.Workdir, opts.Under = true, cache
	own, err := cachedir.Open(filepath.Join(m.Config.DataDir, "providers"), opts)
	if err != nil {
		return nil, nil, err
	}
	return own, func() { own.Close() }, nil
}

// Memory returns the hash records of this user, for commands whose store is not the plugin
// cache. It is nil without a cache.
func (m *Root) Memory() acquire.Memory {
	root := m.CacheRoot()
	if m.Flags.NoCache || root == "" {
		return nil
	}
	if _, err := m.RecordKey(); err != nil {
		return nil // reported where the key is required
	}
	cache, err := m.OpenCache(root, func(o *cachedir.Options) { o.ReadOnly = true })
	if err != nil {
		m.Out.Warn("cannot compare packages with those verified before: %v", err)
		return nil
	}
	return cache
}

// Sharing returns the options of a mirror with the recent downloads in the plugin cache added.
// There are none without a cache that can be written.
func (m *Root) Sharing(mirror builder.Options) builder.Options {
	root := m.CacheRoot()
	if m.Flags.NoCache || m.Flags.ReadOnly || root == "" {
		return mirror
	}
	if cache, err := m.OpenCache(root, func(*cachedir.Options) {}); err == nil { // otherwise reported elsewhere
		mirror.Archives = cache.Archives()
	}
	return mirror
}

// CacheRoot returns the plugin cache's directory: from the flag, the configuration, or larder's
// default.
func (m *Root) CacheRoot() string {
	return cmp.Or(m.Flags.Cache, m.Config.PluginCacheDir, m.Config.DefaultCacheDir)
}

// Cache returns the plugin cache, or nil with --no-cache and if it cannot be opened. The error is that of a cache with
// a link or a mount in it.
func (m *Root) Cache() (*cachedir.Dir, error) {
	if m.Flags.NoCache {
		return nil, nil
	}
	root := m.CacheRoot()
	return m.caches.Once(root, func() (*cachedir.Dir, error) {
		if root == "" {
			m.Output.Warn("no directory for a plugin cache is known; continuing without a cache")
			return nil, nil
		}
		cache, err := m.OpenCache(root, func(o *cachedir.Options) { o.Shared = m.EngineCache() })
		var stray *disk.StrayError
		if errors.As(err, &stray) && disk.Owner(stray.Path) == "" || errors.Is(err, cachedir.ErrMirror) {
			return nil, err // if another user owns it, it could stop this one forever
		}
		if err != nil {
			m.Output.WarnOf(fmt.Errorf("%w; continuing without a plugin cache", err))
			return nil, nil
		}
		if why := cache.ReadOnly(); why != nil && !m.Flags.ReadOnly {
			m.tellReadOnly(root, why)
		}
		return cache, nil
	})
}

// tellReadOnly warns that packages are not added to a plugin cache, and how to change that if
// another user is the reason.
func (m *Root) tellReadOnly(root string, why error) {
	text := fmt.Sprintf("the plugin cache %s is read-only: new packages are not added to it", root)
	hints := sources.Hints(why)
	if len(hints) == 0 {
		m.Output.Warn("%s", text)
		return
	}
	m.Output.WarnHint(hints[0], "%s: %v", text, why)
}

// EngineCache reports whether the engine is configured to use the store too.
func (m *Root) EngineCache() bool {
	return !m.Flags.NoCache && m.Config.PluginCacheDir != "" && m.CacheRoot() == m.Config.PluginCacheDir
}

// OpenCache opens a plugin cache until the command ends, with the options of all caches as adjust
// changes them.
func (m *Root) OpenCache(root string, adjust func(*cachedir.Options)) (*cachedir.Dir, error) {
	opts, err := m.cacheOptions()
	if err != nil {
		return nil, err
	}
	adjust(&opts)
	cache, err := cachedir.Open(root, opts)
	if err != nil {
		return nil, err
	}
	s := m.Site
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, cache)
	return cache, nil
}

// cacheOptions returns the options of all caches.
func (m *Root) cacheOptions() (cachedir.Options, error) {
	s := m.Site
	records, err := m.Records()
	records.Reals = &s.Modules.Reals // of working directories
	return cachedir.Options{
		Records:     records,
		Link:        s.Flags.Link,
		Archives:    int64(m.Config.KeepArchivesMB) * 1e6,
		ReadOnly:    s.Flags.ReadOnly,
		Checks:      s.Checks,
		Unbound:     Unbound(),
		Paranoid:    s.Flags.Paranoid,
		Recorded:    s.Recorded,
		Waiting:     func(h cachedir.Holder) { s.Output.WaitingForCache(h.ID, h.Holder, h.Tofu) },
		LockTimeout: s.Flags.LockTimeout,
		Warn: func(err error) { // the same for many packages and root modules
			for _, err := range sources.Errors(err) {
				if s.First(sources.Text(err)) {
					s.Output.WarnOf(err)
				}
			}
		},
		Judge: m.Judge(),
	}, err
}

// Records returns where the records of all stores are.
func (m *Root) Records() (r store.Records, err error) {
	if m.Config.StateDir != "" {
		r.Dir = filepath.Join(m.Config.StateDir, "stores")
	}
	r.Key, err = m.RecordKey()
	r.ReadOnly = m.Flags.ReadOnly
	return r, err
}

// Unbound reports whether this user can write to read-only files.
var Unbound = disk.IgnoresModes
