package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// store is where packages are kept: the plugin cache, or without one the
// working directory itself.
func (m *rootModule) store() (installer.Cache, error) {
	if m.flags.noCache {
		return m.workdirStore()
	}
	cache := m.cache(m.cacheRoot())
	if cache != nil && !cache.ReadOnly() {
		return cache, nil
	}
	own, err := m.workdirStore()
	if err != nil || cache == nil {
		return own, err
	}
	return layered{cache, own}, nil
}

// cacheRoot is the plugin cache's directory: the flag's, the configuration's, or
// larder's own.
func (m *rootModule) cacheRoot() string {
	switch {
	case m.flags.cache != "":
		return absolute(m.machine.WorkDir, m.flags.cache)
	case m.config.PluginCacheDir != "":
		return m.config.PluginCacheDir
	default:
		return m.config.DefaultCacheDir
	}
}

// cache is the plugin cache in the directory root, nil if there can be none.
func (s *session) cache(root string) *cachedir.Dir {
	cache, _ := s.caches.get(root, func() (*cachedir.Dir, error) {
		if root == "" {
			s.out.warn("there is no place for a plugin cache; going on without one")
			return nil, nil
		}
		cache, err := cachedir.Open(root, s.cacheOptions())
		if err != nil {
			s.out.warn("%v; going on without a plugin cache", err)
			return nil, nil
		}
		if cache.ReadOnly() {
			s.out.warn("the plugin cache %s cannot be written; what it lacks is not added to it", root)
		}
		return cache, nil
	})
	return cache
}

// engineCache reports whether the engine is configured to use the store too.
func (m *rootModule) engineCache() bool {
	return !m.flags.noCache && m.config.PluginCacheDir != "" && m.cacheRoot() == m.config.PluginCacheDir
}

// workdirStore is the working directory as its own store: it has a cache's
// layout. What a cache keeps beside its packages goes elsewhere in the data
// directory, where engines do not look for providers.
func (m *rootModule) workdirStore() (installer.Cache, error) {
	opts := m.cacheOptions()
	opts.State = filepath.Join(m.config.DataDir, "larder")
	return cachedir.Open(filepath.Join(m.config.DataDir, "providers"), opts)
}

func (s *session) cacheOptions() cachedir.Options {
	return cachedir.Options{
		Link:     s.flags.link,
		Paranoid: s.flags.paranoid,
		Waiting: func(h cachedir.Holder) {
			s.out.event(installer.Event{Step: installer.Waiting, Package: h.ID, Text: waitingFor(h)})
		},
		LockTimeout: s.flags.lockTimeout,
		Warn:        func(err error) { s.out.warn("%v", err) },
	}
}

// A layered store reads from a cache that it cannot write, and puts what is
// missing there into another store.
type layered struct {
	cache installer.Keeper
	own   installer.Cache
}

func (l layered) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	s, err := l.cache.Get(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		return l.own.Get(ctx, id)
	}
	return s, err
}

func (l layered) Put(ctx context.Context, id sources.PackageID, d sources.Delivery) (sources.Stored, error) {
	if s, err := l.cache.Get(ctx, id); err == nil && d.Accept(s) {
		return s, nil
	}
	return l.own.Put(ctx, id, d)
}

func (l layered) Recall(id sources.PackageID) (sources.Stored, error) {
	s, err := l.cache.Recall(id)
	if errors.Is(err, sources.ErrNotFound) {
		return l.own.Recall(id)
	}
	return s, err
}

func (l layered) Measure(ctx context.Context, id sources.PackageID, d sources.Delivery) (sources.Stored, error) {
	if s, err := l.cache.Recall(id); err == nil && d.Accept(s) {
		return s, nil
	}
	return l.own.Measure(ctx, id, d)
}

func (l layered) Link(ctx context.Context, s sources.Stored, target string) (sources.LinkMode, error) {
	return l.cache.Link(ctx, s, target)
}

func (l layered) Known(ctx context.Context, id sources.PackageID, dir string) (sources.Stored, error) {
	return l.cache.Known(ctx, id, dir)
}

// Use keeps what the cache has in its place, though only others can remove it.
func (l layered) Use(ctx context.Context) (release func(), err error) { return l.cache.Use(ctx) }

// Register does nothing, as nothing can be noted in the cache.
func (l layered) Register(string, string, []sources.PackageID) {}
