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
func (s *session) store(dataDir string) (installer.Store, error) {
	if s.flags.noCache {
		return s.workdirStore(dataDir)
	}
	root := s.cacheRoot()
	if root == "" {
		s.out.warn("there is no place for a plugin cache; installing without one")
		return s.workdirStore(dataDir)
	}
	cache, err := cachedir.Open(root, s.cacheOptions())
	if err == nil && !cache.ReadOnly() {
		return cache, nil
	}
	own, ownErr := s.workdirStore(dataDir)
	if ownErr != nil {
		return nil, errors.Join(err, ownErr)
	}
	if err != nil {
		s.out.warn("%v; installing without a plugin cache", err)
		return own, nil
	}
	s.out.warn("the plugin cache %s cannot be written; what it lacks goes straight into the working directory", root)
	return layered{cache, own}, nil
}

// cacheRoot is the plugin cache's directory: the flag's, the configuration's, or
// larder's own.
func (s *session) cacheRoot() string {
	switch {
	case s.flags.cache != "":
		return absolute(s.launchDir, s.flags.cache)
	case s.config.PluginCacheDir != "":
		return s.config.PluginCacheDir
	default:
		return s.config.DefaultCacheDir
	}
}

// engineCache reports whether the engine is configured to use the store too.
func (s *session) engineCache() bool {
	return !s.flags.noCache && s.config.PluginCacheDir != "" && s.cacheRoot() == s.config.PluginCacheDir
}

// workdirStore is the working directory as its own store: it has a cache's
// layout. What a cache keeps beside its packages goes elsewhere in the data
// directory, where engines do not look for providers.
func (s *session) workdirStore(dataDir string) (*cachedir.Dir, error) {
	opts := s.cacheOptions()
	opts.State = filepath.Join(dataDir, "larder")
	return cachedir.Open(filepath.Join(dataDir, "providers"), opts)
}

func (s *session) cacheOptions() cachedir.Options {
	return cachedir.Options{
		Link: s.flags.link,
		Waiting: func(h cachedir.Holder) {
			s.out.say(normal, "waiting for %v", h)
		},
		Warn: func(err error) { s.out.warn("%v", err) },
	}
}

// A layered store reads from a cache that it cannot write, and puts what is
// missing there into another store.
type layered struct {
	cache installer.Store
	own   installer.Store
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

func (l layered) Link(ctx context.Context, s sources.Stored, target string) (sources.LinkMode, error) {
	return l.cache.Link(ctx, s, target)
}

func (l layered) Known(ctx context.Context, id sources.PackageID, dir string) (sources.Stored, error) {
	return l.cache.Known(ctx, id, dir)
}
