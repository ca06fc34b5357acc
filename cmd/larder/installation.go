package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// An installation installs the providers of one root module, or with --recursive of all root
// modules below. Each root module has its own installer. They share slots, so that --jobs limits
// all of them together.
type installation struct {
	*session
	pluginPath   []string // mirrors as typed, to record for the engine
	readOnlyLock bool

	// What exec requires.
	quiet     bool                                                        // print no summary if nothing was done
	defers    func(*rootModule) bool                                      // whether a root module is left out; may be nil
	installed func(*rootModule, *installer.Root, *installer.Result) error // called after each root module; may be nil

	readings   acquire.Readings
	incomplete incomplete
	tally      installTally
}

// run installs the providers of all root modules.
func (in *installation) run(ctx context.Context) error {
	in.out.AtLast(func() {
		if in.quiet && in.tally.idle() {
			return
		}
		if ctx.Err() == nil || in.out.JSON { // an interrupted run has no other errors
			in.tally.show(in.out, in.flags)
		}
	})
	err := in.each(ctx, in.at)
	in.warnIncomplete()
	in.warnUnusedKeys()
	return err
}

// at installs the providers that the root module in dir requires.
func (in *installation) at(ctx context.Context, dir string, out *ui.Output) (show func(), err error) {
	m, err := in.root(ctx, dir, out)
	if err != nil {
		return in.tally.fail, err
	}
	if in.defers != nil && in.defers(m) {
		return func() {}, nil
	}
	root, err := m.needs(ctx)
	if err != nil {
		return in.tally.fail, err
	}
	if root == nil || root.Elsewhere && in.flags.noCache { // then there is no place for its packages
		return func() {}, nil
	}
	before := root.Lock
	result, err := in.install(ctx, m, root)
	if err == nil && in.installed != nil {
		err = in.installed(m, root, result)
	}
	return func() {
		if result != nil {
			in.signers.sawAll(result.Packages)
		}
		in.tally.add(out, installed{result, before, len(root.Requirements), err != nil})
	}, err
}

// install installs the providers that a root module requires.
func (in *installation) install(ctx context.Context, m *rootModule, root *installer.Root) (*installer.Result, error) {
	root.ReadOnlyLock, root.DryRun = in.readOnlyLock, in.flags.dryRun
	if err := m.checkProviders(ctx); err != nil {
		return nil, err
	}
	methods, err := m.methods(ctx)
	if err != nil {
		return nil, err
	}
	from := sources.NewMulti(methods)
	to, done, err := m.store()
	if err != nil {
		return nil, err
	}
	defer done()
	opts := m.installerOptions(m.out.Event)
	opts.Upgrade, opts.EngineCache, opts.Readings = m.flags.upgrade, m.engineCache(), &in.readings
	opts.PreferStore = in.installed != nil
	opts.UnverifiedCache = m.config.UnverifiedCache && !m.flags.noCache
	result, err := installer.New(from, to, m.client, opts).Install(ctx, *root)
	in.incomplete.add(result)
	if result != nil {
		var installed []sources.Release
		for _, p := range result.Packages {
			installed = append(installed, p.Package.ID.Release())
		}
		if line := m.tellCheckout(ctx, methods, installed); line != "" {
			result.Warnings = append(result.Warnings, line)
		}
	}
	if err != nil {
		return result, m.explain(err)
	}
	return result, in.rememberPluginDirs(root.DataDir)
}
