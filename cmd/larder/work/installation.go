package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// An installation installs the providers of one root module, or with --recursive of all root
// modules below. Each root module has its own installer. They share slots, so that --jobs limits
// all of them together.
type installation struct {
	*Session
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

// An InstallRequest says what to install, and from where.
type InstallRequest struct {
	Roots        []string // directories as typed; none means the one in which larder works
	PluginDirs   []string // mirrors as typed, in place of all other sources
	ReadOnlyLock bool
}

// Install installs the providers that root modules require.
func Install(ctx context.Context, s *Session, request InstallRequest) error {
	in := &installation{Session: s, pluginPath: request.PluginDirs, readOnlyLock: request.ReadOnlyLock}
	s.certain = request.ReadOnlyLock
	if err := in.useMirrors("--plugin-dir", request.PluginDirs); err != nil {
		return err
	}
	if err := in.takeRoots(request.Roots); err != nil {
		return err
	}
	return in.run(ctx)
}

// run installs the providers of all root modules.
func (in *installation) run(ctx context.Context) error {
	in.output.AtLast(func() {
		in.tally.DryRun, in.tally.Several = in.flags.DryRun, in.flags.Recursive || len(in.roots) > 1
		if in.installed == nil { // otherwise a command follows, and what it shows is more important
			in.tally.Behind = sources.Texts(slices.SortedFunc(maps.Keys(in.tally.behind), sources.Provider.Compare))
		}
		in.output.Summary(in.tally.InstallSum)
		idle := in.quiet && in.tally.Idle()
		if ctx.Err() == nil && !idle { // an interrupted run has no other errors
			in.output.Installed(in.tally.InstallSum)
			in.output.Behind(in.tally.InstallSum, in.again("outdated"))
		}
	})
	err := in.each(ctx, in.at)
	in.warnIncomplete()
	in.warnUnusedKeys()
	return err
}

// at installs the providers that the root module in dir requires.
func (in *installation) at(ctx context.Context, dir string, out *report.Output) (show func(), err error) {
	m, err := in.root(ctx, dir, out)
	if err != nil {
		return in.tally.fail, err
	}
	if in.defers != nil && in.defers(m) {
		return func() {}, nil
	}
	root, err := m.needsIfAny(ctx)
	if postponed, ok := errors.AsType[postponedError](err); ok {
		return func() { out.Say("%v", postponed) }, nil
	}
	if err != nil {
		return in.tally.fail, err
	}
	if root == nil || root.Elsewhere && in.flags.NoCache { // then there is no place for its packages
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
	root.ReadOnlyLock, root.DryRun = in.readOnlyLock, in.flags.DryRun
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
	opts.Upgrade, opts.EngineCache, opts.Readings = m.flags.Upgrade, m.engineCache(), &in.readings
	opts.PreferStore = in.installed != nil
	opensCache := opts.EngineCache && m.config.Engine == sources.OpenTofu // which also has what no source lists
	opts.Confined = len(m.pluginDirs) > 0 && !opensCache
	opts.UnverifiedCache = m.config.UnverifiedCache && !m.flags.NoCache
	result, err := installer.New(from, to, m.client, opts).Install(ctx, *root)
	in.incomplete.add(result, m.policy)
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
	return result, in.rememberPluginDirs(in.pluginPath, root.DataDir)
}

// warnIncomplete prints one warning for all of them, because they have the same cause: no
// source has the signed checksums of a version.
func (in *installation) warnIncomplete() {
	i := &in.incomplete
	if i.files == 0 {
		return
	}
	platforms := in.flags.Platforms
	if len(platforms) == 0 {
		platforms = []sources.Platform{sources.CurrentPlatform()}
	}
	names := sources.Texts(slices.SortedFunc(maps.Keys(i.providers), sources.Provider.Compare))
	files := "the lock file has"
	switch {
	case in.flags.Recursive && i.files == 1:
		files = "1 lock file has"
	case in.flags.Recursive:
		files = ui.Count(i.files, "lock file") + " have"
	}
	example := slices.Clone(sources.Texts(platforms))
	for _, other := range []string{"linux_amd64", "darwin_arm64"} {
		if !slices.Contains(example, other) {
			example = append(example, other)
		}
	}
	hint := fmt.Sprintf("to add hashes for the platforms that you use, run %s --platform %s", in.again("lock"), strings.Join(example, " --platform "))
	if i.declared {
		hint = "to add hashes for the platforms that the policy declares, run " + in.again("lock")
	}
	in.output.WarnHint(hint,
		"%s hashes for %s only, so init fails on other platforms: %s", files, ui.List("and", sources.Texts(platforms)), strings.Join(names, ", "))
}
