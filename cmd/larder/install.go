package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

func installCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "install",
		Usage:     "install the providers that the root module here needs",
		ArgsUsage: "[FLAG...]",
		Description: "Does the provider part of terraform init and tofu init: same versions, same\n" +
			"lock file, same tree. Exit status: 0 installed, 1 something could not be,\n" +
			"2 used wrongly, 130 interrupted.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "upgrade", Aliases: []string{"u"}, Usage: "choose the newest versions, whatever is locked"},
			&cli.StringFlag{Name: "lockfile", Usage: "`MODE` readonly: refuse to change the lock file"},
			&cli.StringSliceFlag{Name: "plugin-dir", Usage: "install from `DIR` alone; may be repeated"},
			&cli.StringSliceFlag{Name: "platform", Usage: "install for `OS_ARCH`, not for this machine; may be repeated"},
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"R"}, Usage: "install for every root module here and below"},
			&cli.StringSliceFlag{Name: "exclude", Usage: "`GLOB` of directories that --recursive passes; may be repeated"},
			&cli.BoolFlag{Name: "require-signed", Usage: "refuse packages that are less than signed"},
			trustKeyFlag(),
			&cli.BoolFlag{Name: "paranoid", Usage: "believe no record, hash everything"},
			&cli.BoolFlag{Name: "dry-run", Usage: "tell what would be installed, and write nothing"},
		},
		Action: func(c *cli.Context) error { return install(c, out) },
	}
}

// An installation is what the flags of install ask for.
type installation struct {
	*session
	platforms     []sources.Platform
	pluginPath    []string // as typed
	pluginDirs    []string // absolute
	upgrade       bool
	readOnly      bool
	dryRun        bool
	requireSigned bool
	slots         installer.Slots
	readings      installer.Readings
}

func install(c *cli.Context, out *ui.Output) error {
	if err := noArguments(c); err != nil {
		return err
	}
	in := &installation{
		upgrade: c.Bool("upgrade"), dryRun: c.Bool("dry-run"), requireSigned: c.Bool("require-signed"),
	}
	if err := in.readFlags(c); err != nil {
		return err
	}
	var err error
	if in.session, err = newSession(c, out); err != nil {
		return err
	}
	in.flags.paranoid = c.Bool("paranoid")
	in.slots = installer.NewSlots(in.flags.jobs)
	for _, dir := range in.pluginPath {
		if dir != "" {
			in.pluginDirs = append(in.pluginDirs, absolute(in.dir, dir))
		}
	}
	return in.each(c, in.at)
}

// readFlags reads those flags that may be wrong.
func (in *installation) readFlags(c *cli.Context) (err error) {
	mode := c.String("lockfile")
	in.readOnly = mode != ""
	switch {
	case mode != "" && mode != "readonly":
		return usageError{fmt.Errorf("--lockfile is readonly or left out, not %q", mode)}
	case in.readOnly && in.upgrade:
		return usageError{errors.New("--upgrade and --lockfile readonly exclude each other")}
	}
	if err := checkExclude(c); err != nil {
		return err
	}
	if in.platforms, err = parsePlatforms(c.StringSlice("platform")); err != nil {
		return err
	}
	return in.readPluginDirs(c.StringSlice("plugin-dir"))
}

func parsePlatforms(names []string) ([]sources.Platform, error) {
	var platforms []sources.Platform
	for _, name := range names {
		p, err := sources.ParsePlatform(name)
		if err != nil && strings.Contains(name, ",") {
			err = sources.WithHint(err, "for several platforms, repeat the flag")
		}
		if err != nil {
			return nil, usageError{err}
		}
		if !slices.Contains(platforms, p) {
			platforms = append(platforms, p)
		}
	}
	return platforms, nil
}

// at installs what the root module in dir needs.
func (in *installation) at(ctx context.Context, dir string, out *ui.Output) (show func(), err error) {
	result, err := in.install(ctx, dir, out)
	return func() { showInstalled(out, result) }, err
}

// install does, and has no result where nothing is needed.
func (in *installation) install(ctx context.Context, dir string, out *ui.Output) (*installer.Result, error) {
	m, err := in.root(ctx, dir, out)
	if err != nil {
		return nil, err
	}
	root, err := m.needs(ctx)
	if err != nil || root == nil {
		return nil, err
	}
	root.ReadOnlyLock, root.DryRun = in.readOnly, in.dryRun
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
	result, err := installer.New(from, to, m.client, installer.Options{
		Engine:        m.config.Engine,
		Platforms:     in.platforms,
		Slots:         in.slots,
		Upgrade:       in.upgrade,
		RequireSigned: in.requireSigned,
		EngineCache:   m.engineCache(),
		Readings:      &in.readings,
		Trust:         m.trustOptions(),
		Report:        out.Event,
	}).Install(ctx, *root)
	return result, m.explain(err)
}

// needs is what the root module requires, and what is locked for it. It is nil
// if there is no configuration.
func (m *rootModule) needs(ctx context.Context) (*installer.Root, error) {
	tree, ds := modules.Load(ctx, m.dir, modules.Options{
		Engine:             m.config.Engine,
		DataDir:            m.config.DataDir,
		Workspace:          m.config.Workspace,
		KeepStateAddresses: !m.config.TranslateStateAddresses,
		Cache:              &m.modules,
	})
	for i, d := range ds {
		ds[i].File = m.full(d.File)
	}
	if err := m.out.Warnings(append(ds, m.lockProblems...)); err != nil {
		return nil, err
	}
	if m.config.Engine == sources.OpenTofu {
		if warning := m.lock.Migrate(); warning != "" {
			m.out.Warn("%s", warning)
		}
	}
	if tree.Empty {
		m.out.Say("there is no configuration in %s: nothing to do", m.dir)
		return nil, nil
	}
	m.warnOfOverrides(tree.Requirements)
	found := &installer.Root{Dir: m.dir, DataDir: m.config.DataDir, Lock: m.lock}
	for _, r := range tree.Requirements {
		r.From = slices.Clone(r.From)
		for i, from := range r.From {
			r.From[i].File = m.full(from.File)
		}
		if slices.Contains(m.config.Unmanaged, r.Provider) {
			found.Unmanaged = append(found.Unmanaged, r.Provider)
		} else {
			found.Requirements = append(found.Requirements, r)
		}
	}
	return found, nil
}

// full is the full path of a file that is named as seen from the root module.
func (m *rootModule) full(file string) string {
	if file == "" {
		return ""
	}
	return absolute(m.dir, file)
}

// warnOfOverrides tells of providers that are installed and then not used.
func (m *rootModule) warnOfOverrides(all []sources.Requirement) {
	for _, r := range all {
		if dir := m.config.DevOverrides[r.Provider]; dir != "" {
			m.out.Warn("%s: %s uses the development override in %s", r.Provider, m.config.Engine, dir)
		}
	}
}

// showInstalled writes what was installed and how the lock file was changed.
func showInstalled(out *ui.Output, result *installer.Result) {
	if result == nil {
		return
	}
	for _, p := range result.Packages {
		out.Outcome(p)
	}
	for _, w := range result.Warnings {
		out.Warn("%s", w)
	}
	if result.Lock.Written {
		out.LockFile(result.Lock)
	}
}
