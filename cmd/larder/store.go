package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// store is where packages are kept: the plugin cache, or without one the working
// directory itself. The caller calls done when it has finished with it.
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

// memory has the hashes of packages that this user has verified before, for commands
// that have another store than the plugin cache. It is nil without a cache.
func (m *rootModule) memory() acquire.Memory {
	root := m.cacheRoot()
	if m.flags.noCache || root == "" {
		return nil
	}
	opts, err := m.cacheOptions()
	if err != nil {
		return nil // which is told where the key is needed
	}
	opts.ReadOnly = true
	cache, err := m.openCache(root, opts)
	if err != nil {
		m.out.Warn("cannot compare packages with those verified before: %v", err)
		return nil
	}
	return cache
}

// cacheRoot is the plugin cache's directory: the flag's, the configuration's, or
// larder's own.
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

// cache is the plugin cache in the directory root, nil if it cannot be opened, which
// an engine may share. The error is that of a cache that a link or a mount is in.
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
		if errors.As(err, &stray) || errors.Is(err, cachedir.ErrMirror) {
			return nil, err
		}
		if err != nil {
			m.session.out.Warn("%v; continuing without a plugin cache", err)
			return nil, nil
		}
		if cache.ReadOnly() && !m.flags.readOnly {
			m.session.out.Warn("the plugin cache %s is read-only: new packages are not added to it", root)
		}
		return cache, nil
	})
	if cache != nil {
		m.client.Share(cache) // a server that one process is to leave alone, all leave alone
	}
	return cache, err
}

// engineCache reports whether the engine is configured to use the store too.
func (m *rootModule) engineCache() bool {
	return !m.flags.noCache && m.config.PluginCacheDir != "" && m.cacheRoot() == m.config.PluginCacheDir
}

// workdirStore is the working directory as its own store: it has a cache's layout.
// What a cache keeps beside its packages goes to the user's state directory, as a
// working directory may be a checkout with files from anyone.
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

// cacheOptions are what all caches have in common.
func (m *rootModule) cacheOptions() (cachedir.Options, error) {
	s := m.session
	key, err := m.recordKey()
	return cachedir.Options{
		Key:         key,
		Link:        s.flags.link,
		ReadOnly:    s.flags.readOnly,
		Unbound:     unbound(),
		Paranoid:    s.flags.paranoid,
		Waiting:     func(h cachedir.Holder) { s.out.WaitingForCache(h.ID, h.Holder, h.Tofu) },
		LockTimeout: s.flags.lockTimeout,
		Warn:        s.out.WarnOf,
		Merge:       m.mergeEvidence,
		Vouch:       m.vouchVerdict,
		Compare:     m.compareKeys,
	}, err
}

// A layered store reads from a cache that it cannot write, and puts what is
// missing there into another store.
type layered struct {
	*cachedir.Dir // the cache
	own           *cachedir.Dir
}

// Get is that of the cache, or else of the other store.
func (l layered) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	s, err := l.Dir.Get(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		return l.own.Get(ctx, id)
	}
	return s, err
}

// Begin begins a transaction of the other store. What the cache has of the package comes
// first.
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

// Recall is that of the cache, or else of the other store.
func (l layered) Recall(id sources.PackageID) (sources.Stored, error) {
	s, err := l.Dir.Recall(id)
	if errors.Is(err, sources.ErrNotFound) {
		return l.own.Recall(id)
	}
	return s, err
}

// Recorded is what either has recorded.
func (l layered) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	all, err := l.Dir.Recorded(p, v)
	more, ownErr := l.own.Recorded(p, v)
	return append(all, more...), errors.Join(err, ownErr)
}

// Evidence is what the cache keeps, or else what came with the packages that it lacks.
func (l layered) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	signed, err := l.Dir.Evidence(p, v)
	if err != nil {
		return l.own.Evidence(p, v)
	}
	return signed, nil
}

// unbound reports whether this user may write to read-only files.
var unbound = disk.IgnoresModes
