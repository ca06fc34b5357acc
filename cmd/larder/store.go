package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// store returns the store for packages: the plugin cache, or without one the working directory.
// The caller must call done when it has finished.
func (m *rootModule) store() (store installer.Cache, done func(), err error) {
	var cache *cachedir.Dir
	if !m.flags.noCache {
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
	return layered{cache, own}, done, nil
}

// memory returns the hash records of this user, for commands whose store is not the plugin
// cache. It is nil without a cache.
func (m *rootModule) memory() acquire.Memory {
	root := m.cacheRoot()
	if m.flags.noCache || root == "" {
		return nil
	}
	opts, err := m.cacheOptions()
	if err != nil {
		return nil // reported where the key is required
	}
	opts.ReadOnly = true
	cache, err := m.openCache(root, opts)
	if err != nil {
		m.out.Warn("cannot compare packages with those verified before: %v", err)
		return nil
	}
	return cache
}

// sharing returns the options of a mirror with the recent downloads in the plugin cache added.
// There are none without a cache that can be written. Downloads of other processes are there anyway.
func (m *rootModule) sharing(mirror builder.Options) builder.Options {
	mirror.Arrivals = m.session.arrivals
	root := m.cacheRoot()
	if m.flags.noCache || m.flags.readOnly || root == "" {
		return mirror
	}
	opts, err := m.cacheOptions()
	if err != nil {
		return mirror // reported where the key is required
	}
	if cache, err := m.openCache(root, opts); err == nil {
		mirror.Archives = cache.Archives()
	}
	return mirror
}

// cacheRoot returns the plugin cache's directory: from the flag, the configuration, or larder's
// default.
func (m *rootModule) cacheRoot() string {
	switch {
	case m.flags.cache != "":
		return absolute(m.session.dir, m.flags.cache)
	case m.config.PluginCacheDir != "":
		return m.config.PluginCacheDir
	default:
		return m.config.DefaultCacheDir
	}
}

// cache returns the plugin cache in the directory root, or nil if it cannot be opened. An engine
// may use the cache too. The error is that of a cache with a link or a mount in it.
func (m *rootModule) cache(root string, shared bool) (*cachedir.Dir, error) {
	cache, err := m.caches.get(root, func() (*cachedir.Dir, error) {
		if root == "" {
			m.session.out.Warn("no directory for a plugin cache is known; continuing without a cache")
			return nil, nil
		}
		opts, err := m.cacheOptions()
		if err != nil {
			return nil, err
		}
		opts.Shared = shared
		cache, err := m.openCache(root, opts)
		var stray *disk.StrayError
		if errors.As(err, &stray) && disk.Owner(stray.Path) != "" { // others could stop this user forever
			err = sources.WithHint(stray, "let %s remove it", disk.Owner(stray.Path))
		} else if stray != nil || errors.Is(err, cachedir.ErrMirror) {
			return nil, err
		}
		if err != nil {
			m.session.out.WarnOf(fmt.Errorf("%w; continuing without a plugin cache", err))
			return nil, nil
		}
		if cache.ReadOnly() && !m.flags.readOnly {
			m.tellReadOnly(root, cache.WhyReadOnly())
		}
		return cache, nil
	})
	if cache != nil {
		m.client.Share(cache) // processes share the pauses that servers request
	}
	return cache, err
}

// tellReadOnly warns that packages are not added to a plugin cache, and how to change that if
// another user is the reason.
func (m *rootModule) tellReadOnly(root string, why error) {
	text := fmt.Sprintf("the plugin cache %s is read-only: new packages are not added to it", root)
	hints := sources.Hints(why)
	if len(hints) == 0 {
		m.session.out.Warn("%s", text)
		return
	}
	m.session.out.WarnHint(hints[0], "%s: %v", text, why)
}

// engineCache reports whether the engine is configured to use the store too.
func (m *rootModule) engineCache() bool {
	return !m.flags.noCache && m.config.PluginCacheDir != "" && m.cacheRoot() == m.config.PluginCacheDir
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
	if m.config.StateDir != "" {
		key := sha256.Sum256([]byte(m.config.DataDir))
		opts.State = filepath.Join(m.config.StateDir, "workdir", hex.EncodeToString(key[:16]))
	}
	return cachedir.Open(filepath.Join(m.config.DataDir, "providers"), opts)
}

// cacheOptions returns the options of all caches.
func (m *rootModule) cacheOptions() (cachedir.Options, error) {
	s := m.session
	key, err := m.recordKey()
	return cachedir.Options{
		Key:         key,
		Link:        s.flags.link,
		Archives:    int64(m.config.KeepArchivesMB) * 1e6,
		Arrivals:    m.session.arrivals,
		ReadOnly:    s.flags.readOnly,
		Unbound:     unbound(),
		Paranoid:    s.flags.paranoid,
		Waiting:     func(h cachedir.Holder) { s.out.WaitingForCache(h.ID, h.Holder, h.Tofu) },
		LockTimeout: s.flags.lockTimeout,
		Warn:        s.out.WarnOf,
		Judge:       m.judge(),
	}, err
}

// A layered store reads from a read-only cache, and puts missing packages into another store.
type layered struct {
	*cachedir.Dir // the cache
	own           *cachedir.Dir
}

// Get returns the package from the cache, or else from the other store.
func (l layered) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	s, err := l.Dir.Get(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		return l.own.Get(ctx, id)
	}
	return s, err
}

// PackagesOf returns the packages of a provider in both stores.
func (l layered) PackagesOf(ctx context.Context, p sources.Provider) ([]sources.PackageID, error) {
	all, err := l.Dir.PackagesOf(ctx, p)
	more, ownErr := l.own.PackagesOf(ctx, p)
	all = slices.SortedFunc(slices.Values(append(all, more...)), sources.PackageID.Compare)
	return slices.Compact(all), errors.Join(err, ownErr)
}

// Begin begins a transaction in the other store. It starts with the package from the cache, if
// the cache has it.
func (l layered) Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (sources.Held, sources.Tx, error) {
	held, tx, err := l.own.Begin(ctx, id, purpose)
	if err != nil {
		return held, tx, err
	}
	if purpose == sources.ToStore && held.Package.ZH == "" {
		if s, err := l.Dir.Get(ctx, id); err == nil {
			held.Package = s
		}
	}
	switch s, err := l.Dir.Recall(id); {
	case err == nil:
		held.Known = s
	case !errors.Is(err, sources.ErrNotFound):
		tx.Close()
		return held, nil, err
	}
	return held, tx, nil
}

// Recall returns the record from the cache, or else from the other store.
func (l layered) Recall(id sources.PackageID) (sources.Stored, error) {
	s, err := l.Dir.Recall(id)
	if errors.Is(err, sources.ErrNotFound) {
		return l.own.Recall(id)
	}
	return s, err
}

// Recorded returns the records of both stores.
func (l layered) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	all, err := l.Dir.Recorded(p, v)
	more, ownErr := l.own.Recorded(p, v)
	return append(all, more...), errors.Join(err, ownErr)
}

// Evidence returns the evidence in the cache, or else in the other store.
func (l layered) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	signed, err := l.Dir.Evidence(p, v)
	if err != nil {
		return l.own.Evidence(p, v)
	}
	return signed, nil
}

// unbound reports whether this user can write to read-only files.
var unbound = disk.IgnoresModes
