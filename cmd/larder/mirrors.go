package main

import (
	"context"
	"fmt"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// openMirror opens the mirror in dir for those who look after it. The caller closes
// it.
func (m *rootModule) openMirror(ctx context.Context, dir string, opts builder.Options) (*builder.Builder, error) {
	opts.Warn = m.out.WarnOf
	opts.Waiting, opts.LockTimeout = m.out.WaitingForMirror(dir), m.flags.lockTimeout
	opts.Merge, opts.Vouch, opts.Compare = m.mergeEvidence, m.vouchVerdict, m.compareKeys
	var err error
	if opts.Key, err = m.recordKey(); err != nil {
		return nil, err
	}
	return builder.Open(ctx, dir, opts)
}

// noCache refuses to make a mirror of a plugin cache, or in one: larder adds and
// removes packages there for any root module, and engines write to it too.
func (m *rootModule) noCache(dir string) error {
	for _, cache := range []string{m.cacheRoot(), m.config.PluginCacheDir, m.config.DefaultCacheDir} {
		if cache != "" && within(dir, cache) {
			err := fmt.Errorf("%s is in the plugin cache %s, which cannot be a mirror", dir, cache)
			if within(cache, dir) {
				err = fmt.Errorf("%s is the plugin cache, which cannot be a mirror", dir)
			}
			return usageError{sources.WithHint(err, "choose another directory for the mirror")}
		}
	}
	if cachedir.IsCache(dir) {
		err := fmt.Errorf("%s is a plugin cache, which cannot be a mirror", dir)
		return usageError{sources.WithHint(err, "choose another directory for the mirror")}
	}
	return nil
}

// readManifest reads a manifest from a file.
func readManifest(path string) (bundle.Manifest, error) {
	data, err := disk.ReadFile(path, bundle.MaxManifest)
	if err != nil {
		return bundle.Manifest{}, err
	}
	m, err := bundle.ParseManifest(data)
	if err != nil {
		err = sources.WithHint(fmt.Errorf("%s: %w", path, err), "larder bundle manifest DIR writes one, where the mirror is")
	}
	return m, err
}
