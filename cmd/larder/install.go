package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
)

func installCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "install",
		Category:  forModules,
		Usage:     "install the providers that root modules require",
		ArgsUsage: "[PATH...] [FLAG...]",
		UsageText: "larder install -R --upgrade",
		Description: "Does the provider part of terraform init and tofu init: the same\n" +
			"versions, the same lock file, the same files. PATH is a root module.",
		Flags: slices.Concat([]cli.Flag{
			upgradeFlag(),
		}, treeFlags(), trustFlags(), []cli.Flag{
			&cli.StringFlag{Name: "lockfile", Usage: "`MODE` readonly: fail if the lock file would change"},
			&cli.StringSliceFlag{Name: "plugin-dir", Usage: "`DIR` mirrors to install from, and no other source"},
			&cli.BoolFlag{Name: "paranoid", Usage: "rehash every file, ignore hash records"},
			dryRunFlag("show what would be installed"),
		}),
		Action: func(c *cli.Context) error { return install(c, out) },
	}
}

// An installation contains the flags of install.
type installation struct {
	*session
	pluginPath   []string // as typed
	pluginDirs   []string // absolute
	readOnlyLock bool
	readings     acquire.Readings
	incomplete   incomplete
	tally        installTally
}

// install installs the providers of one root module, or with --recursive of all root modules
// below. Each root module has its own installer. They share slots, so that --jobs limits all
// of them together.
func install(c *cli.Context, out *ui.Output) (err error) {
	mode := c.String("lockfile")
	in := &installation{readOnlyLock: isSet(c, "lockfile")}
	if in.readOnlyLock && mode != "readonly" {
		return usageError{fmt.Errorf("--lockfile must be readonly, not %q", mode)}
	}
	if in.session, err = newSession(c, out); err != nil {
		return err
	}
	if in.readOnlyLock && in.flags.upgrade {
		return usageError{errors.New("--upgrade and --lockfile readonly exclude each other")}
	}
	if err := in.readPluginDirs(c.StringSlice("plugin-dir")); err != nil {
		return err
	}
	if err := in.takeRoots(c.Args().Slice()); err != nil {
		return err
	}
	out.AtLast(func() {
		if c.Context.Err() == nil || out.JSON { // an interrupted run has no other errors
			in.tally.show(out, in.flags)
		}
	})
	err = in.each(c.Context, in.at)
	in.warnIncomplete()
	return err
}

// at installs the providers that the root module in dir requires.
func (in *installation) at(ctx context.Context, dir string, out *ui.Output) (show func(), err error) {
	m, err := in.root(ctx, dir, out)
	if err != nil {
		return in.tally.fail, err
	}
	root, err := m.needs(ctx)
	if err != nil {
		return in.tally.fail, err
	}
	if root == nil {
		return func() {}, nil
	}
	before := root.Lock
	result, err := in.install(ctx, m, root)
	return func() {
		in.tally.add(out, installed{result, before, len(root.Requirements), err != nil})
	}, err
}

// install installs the providers that a root module requires.
func (in *installation) install(ctx context.Context, m *rootModule, root *installer.Root) (*installer.Result, error) {
	root.ReadOnlyLock, root.DryRun = in.readOnlyLock, in.flags.dryRun
	from, err := m.source(ctx, in.pluginDirs)
	if err != nil {
		return nil, err
	}
	if err := in.rememberPluginDirs(root.DataDir); err != nil {
		return nil, err
	}
	to, done, err := m.store()
	if err != nil {
		return nil, err
	}
	defer done()
	opts := m.installerOptions(m.out.Event)
	opts.Upgrade, opts.EngineCache, opts.Readings = m.flags.upgrade, m.engineCache(), &in.readings
	opts.UnverifiedCache = m.config.UnverifiedCache && !m.flags.noCache
	result, err := installer.New(from, to, m.client, opts).Install(ctx, *root)
	in.incomplete.add(result, m.config.Engine)
	return result, m.explain(err)
}
