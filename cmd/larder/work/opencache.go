package work

import (
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

// store returns the store for packages: the plugin cache, or without one the working directory.
// The caller must call done when it has finished.
func (m *rootModule) store() (store installer.Cache, done func(), err error) {
	var cache *cachedir.Dir
	if !m.flags.NoCache {
		if cache, err = m.cache(m.cacheRoot(), m.engineCache()); err != nil {
			return nil, nil, err
		}
		if cache != nil && !cache.ReadOnly() {
			return cache, func() {}, nil
		}
	}
	own, err := m.workdirStore()
	if err != nil {
		return nil, nil, err
	}
	done = func() { own.Close() }
	if cache == nil {
		return own, done, nil
	}
	return cachedir.Layered{Dir: cache, Own: own}, done, nil
}

// memory returns the hash records of this user, for commands whose store is not the plugin
// cache. It is nil without a cache.
func (m *rootModule) memory() acquire.Memory {
	root := m.cacheRoot()
	if m.flags.NoCache || root == "" {
		return nil
	}
	if _, err := m.recordKey(); err != nil {
		return nil // reported where the key is required
	}
	cache, err := m.openCache(root, func(o *cachedir.Options) { o.ReadOnly = true })
	if err != nil {
		m.out.Warn("cannot compare packages with those verified before: %v", err)
		return nil
	}
	return cache
}

// sharing returns the options of a mirror with the recent downloads in the plugin cache added.
// There are none without a cache that can be written.
func (m *rootModule) sharing(mirror builder.Options) builder.Options {
	root := m.cacheRoot()
	if m.flags.NoCache || m.flags.ReadOnly || root == "" {
		return mirror
	}
	if cache, err := m.openCache(root, func(*cachedir.Options) {}); err == nil { // otherwise reported elsewhere
		mirror.Archives = cache.Archives()
	}
	return mirror
}

// cacheRoot returns the plugin cache's directory: from the flag, the configuration, or larder's
// default.
func (m *rootModule) cacheRoot() string {
	switch {
	case m.flags.Cache != "":
		return m.flags.Cache
	case m.config.PluginCacheDir != "":
		return m.config.PluginCacheDir
	default:
		return m.config.DefaultCacheDir
	}
}

// cache returns the plugin cache in the directory root, or nil if it cannot be opened. An engine
// may use the cache too. The error is that of a cache with a link or a mount in it.
func (m *rootModule) cache(root string, shared bool) (*cachedir.Dir, error) {
	return m.caches.get(root, func() (*cachedir.Dir, error) {
		if root == "" {
			m.output.Warn("no directory for a plugin cache is known; continuing without a cache")
			return nil, nil
		}
		cache, err := m.openCache(root, func(o *cachedir.Options) { o.Shared = shared })
		var stray *disk.StrayError
		if errors.As(err, &stray) && disk.Owner(stray.Path) == "" || errors.Is(err, cachedir.ErrMirror) {
			return nil, err // if another user owns it, it could stop this one forever
		}
		if err != nil {
			m.output.WarnOf(fmt.Errorf("%w; continuing without a plugin cache", err))
			return nil, nil
		}
		if cache.ReadOnly() && !m.flags.ReadOnly {
			m.tellReadOnly(root, cache.WhyReadOnly())
		}
		return cache, nil
	})
}

// tellReadOnly warns that packages are not added to a plugin cache, and how to change that if
// another user is the reason.
func (m *rootModule) tellReadOnly(root string, why error) {
	text := fmt.Sprintf("the plugin cache %s is read-only: new packages are not added to it", root)
	hints := sources.Hints(why)
	if len(hints) == 0 {
		m.output.Warn("%s", text)
		return
	}
	m.output.WarnHint(hints[0], "%s: %v", text, why)
}

// engineCache reports whether the engine is configured to use the store too.
func (m *rootModule) engineCache() bool {
	return !m.flags.NoCache && m.config.PluginCacheDir != "" && m.cacheRoot() == m.config.PluginCacheDir
}

// workdirStore returns the working directory as a store: it has the layout of a cache. Records
// are in the user's state directory, because a working directory may be a checkout with files
// from other people.
func (m *rootModule) workdirStore() (*cachedir.Dir, error) {
	opts, err := m.cacheOptions()
	if err != nil {
		return nil, err
	}
	opts.Workdir = true
	return cachedir.Open(filepath.Join(m.config.DataDir, "providers"), opts)
}

// openCache opens a plugin cache until the command ends, with the options of all caches as adjust
// changes them.
func (m *rootModule) openCache(root string, adjust func(*cachedir.Options)) (*cachedir.Dir, error) {
	opts, err := m.cacheOptions()
	if err != nil {
		return nil, err
	}
	adjust(&opts)
	cache, err := cachedir.Open(root, opts)
	if err != nil {
		return nil, err
	}
	s := m.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, cache)
	return cache, nil
}

// cacheOptions returns the options of all caches.
func (m *rootModule) cacheOptions() (cachedir.Options, error) {
	s := m.Session
	records, err := m.records()
	return cachedir.Options{
		Records:     records,
		Link:        s.flags.Link,
		Archives:    int64(m.config.KeepArchivesMB) * 1e6,
		ReadOnly:    s.flags.ReadOnly,
		Checks:      s.checks,
		Unbound:     Unbound(),
		Paranoid:    s.flags.Paranoid,
		Hashes:      s.hashes,
		Waiting:     func(h cachedir.Holder) { s.output.WaitingForCache(h.ID, h.Holder, h.Tofu) },
		LockTimeout: s.flags.LockTimeout,
		Warn:        s.output.WarnOf,
		Judge:       m.judge(),
	}, err
}

// records returns where the records of all stores are.
func (m *rootModule) records() (r store.Records, err error) {
	if m.config.StateDir != "" {
		r.Dir = filepath.Join(m.config.StateDir, "stores")
	}
	r.Key, err = m.recordKey()
	r.ReadOnly = m.flags.ReadOnly
	return r, err
}

// Unbound reports whether this user can write to read-only files.
var Unbound = disk.IgnoresModes
