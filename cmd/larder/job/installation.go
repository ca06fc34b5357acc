// Package job is what several jobs share: installing one root module, filling a store, verifying what is installed, and
// opening mirrors, plugin caches and places. The jobs themselves are in the packages below, one for each family of
// commands. No job knows another.
package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// An Installation installs the providers of one root module, or with --recursive of all root
// modules below. Each root module has its own installer. They share slots, so that --jobs limits
// all of them together.
type Installation struct {
	*site.Site
	PluginPath []string // mirrors as typed, to record for the engine

	// What exec requires.
	Quiet     bool                                                       // print no summary if nothing was done
	Defers    func(context.Context, *site.Root) bool                     // whether a root module is left out; may be nil
	Installed func(*site.Root, *installer.Root, *installer.Result) error // called after each root module; may be nil

	readings acquire.Readings
	tally    installTally
}

// Run installs the providers of all root modules.
func (in *Installation) Run(ctx context.Context) error {
	in.Output.AtLast(func() {
		in.tally.DryRun = in.Flags.DryRun
		if in.Installed == nil { // otherwise a command follows, and what it shows is more important
			in.tally.Behind = sources.Texts(slices.SortedFunc(maps.Keys(in.tally.behind), sources.Provider.Compare))
		}
		in.Output.Summary(in.tally.InstallSum)
		if ctx.Err() == nil { // an interrupted run has no other errors
			command := in.Again("outdated")
			if len(in.Flags.PluginDirs) > 0 { // outdated queries the configured sources
				command = ""
			}
			in.tally.show(in.Output, in.Flags.Recursive || len(in.Roots) > 1, in.Quiet, command)
		}
	})
	err := in.Each(ctx, in.At)
	in.warnIncomplete()
	in.WarnUnusedKeys()
	return err
}

// At installs the providers that the root module in dir requires.
func (in *Installation) At(ctx context.Context, dir string, out *report.Output) (show func(), err error) {
	m, err := in.Root(ctx, dir, out)
	if err != nil {
		return in.tally.fail, err
	}
	if in.Defers != nil && in.Defers(ctx, m) {
		return func() {}, nil
	}
	root, err := m.NeedsIfAny(ctx, in.Installed != nil || in.Flags.Recursive) // as init; others have something to do
	if postponed, ok := errors.AsType[PostponedError](err); ok {
		return func() { out.Say("%v", postponed) }, nil
	}
	if err != nil {
		return in.tally.fail, err
	}
	if root == nil || root.Elsewhere && in.Flags.NoCache { // then there is no place for its packages
		return func() {}, nil
	}
	before := root.Lock
	result, lacks, err := in.install(ctx, m, root)
	if err == nil && in.Installed != nil {
		err = in.Installed(m, root, result)
	}
	return func() {
		if result != nil {
			in.Signers.SawAll(result.Packages)
		}
		declared := m.Policy.Has(policy.Platforms)
		in.tally.add(out, installed{result, before, len(root.Requirements), err, declared, lacks})
	}, err
}

// install installs the providers that a root module requires.
func (in *Installation) install(ctx context.Context, m *site.Root, root *installer.Root) (
	result *installer.Result, lacks []string, err error,
) {
	root.LockMode, root.DryRun = in.Flags.LockMode, in.Flags.DryRun
	if err := m.CheckProviders(ctx); err != nil {
		return nil, nil, err
	}
	methods, err := m.Methods(ctx)
	if err != nil {
		return nil, nil, err
	}
	from := sources.NewMulti(methods)
	to, done, err := m.Store()
	if err != nil {
		return nil, nil, err
	}
	defer done()
	opts := m.InstallerOptions(m.Out.Event)
	opts.Upgrade, opts.EngineCache, opts.Readings = m.Flags.Upgrade, m.EngineCache(), &in.readings
	opts.PreferStore = in.Installed != nil
	opensCache := opts.EngineCache && m.Config.Engine == sources.OpenTofu // which also has what no source lists
	opts.Confined = len(m.PluginDirs) > 0 && !opensCache
	opts.UnverifiedCache = m.Config.UnverifiedCache && !m.Flags.NoCache
	result, err = installer.New(from, to, m.Client, opts).Install(ctx, *root)
	if result != nil {
		if line := m.TellCheckout(ctx, methods, result.Packages); line != "" {
			result.Warnings = append(result.Warnings, line)
		}
	}
	if err != nil {
		return result, nil, m.Explain(err)
	}
	if err := writePluginPath(in.Site, in.PluginPath, root.DataDir); err != nil {
		err = fmt.Errorf("recording the plugin directories: %w", err)
		return result, nil, err
	}
	return result, lacking(ctx, from, result), nil
}

// warnIncomplete prints one warning for all lock files without hashes for other platforms, because these have the same
// cause: no source has the signed checksums of a version.
func (in *Installation) warnIncomplete() {
	t := &in.tally
	if t.unhashed == 0 {
		return
	}
	platforms := site.ThisIfNone(in.Flags.Platforms)
	names := sources.Texts(slices.SortedFunc(maps.Keys(t.incomplete), sources.Provider.Compare))
	files := "the lock file has"
	switch {
	case in.Flags.Recursive && t.unhashed == 1:
		files = "1 lock file has"
	case in.Flags.Recursive:
		files = ui.Count(t.unhashed, "lock file") + " have"
	}
	example := slices.Clone(sources.Texts(platforms))
	for _, other := range commonPlatforms {
		if !slices.Contains(example, other) && !slices.Contains(t.lacking, other) {
			example = append(example, other)
		}
	}
	fromDirs, configure := len(in.Flags.PluginDirs) > 0, ""
	if fromDirs { // lock has no --plugin-dir
		configure = "configure " + ui.List("and", in.Flags.PluginDirs) + " as a filesystem_mirror, and "
	}
	hint := "to add hashes for the platforms that you use, " + configure + "run " +
		in.Again("lock") + " --platform " + strings.Join(example, " --platform ")
	switch {
	case t.declared && !fromDirs:
		hint = "to add hashes for the platforms that the policy declares, run " + in.Again("lock")
	case len(example) == len(platforms):
		hint = "to add hashes for other platforms, run lock with a mirror or registry that has their packages"
	}
	in.Output.WarnHint(hint,
		"%s hashes for %s only, so init fails on other platforms: %s",
		files, ui.List("and", sources.Texts(platforms)), strings.Join(names, ", "))
}

// commonPlatforms are those that the hint has as an example.
var commonPlatforms = []string{"linux_amd64", "darwin_arm64"}

// lacking returns the common platforms for which a source, as far as it says so, has no package of a provider whose
// lock entry is incomplete.
func lacking(ctx context.Context, from sources.Source, result *installer.Result) (platforms []string) {
	for _, o := range result.Packages {
		id := o.Package.ID
		if !slices.Contains(result.Incomplete, id.Provider) {
			continue
		}
		listing, err := from.Versions(ctx, id.Provider) // again, which sends no request
		detail := listing.Details[id.Version]
		for _, text := range commonPlatforms {
			platform, _ := sources.ParsePlatform(text)
			if err == nil && !detail.For(platform) {
				platforms = append(platforms, text)
			}
		}
	}
	return platforms
}

// A PostponedError is the reason why nothing is installed for a root module before a program runs init there.
type PostponedError struct{ Module string }

func (e PostponedError) Error() string {
	return "skipped until the program runs init: " + e.Module
}
