package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Needs returns the requirements of the root module with its locked versions. Where the
// configuration is elsewhere, the lock file's entries are requirements too. If there is neither
// configuration nor a lock file, it returns an [emptyError], or nil where that is not a mistake.
func (m *Root) Needs(ctx context.Context) (*installer.Root, error) {
	if _, err := m.Modules.List(m.Real(m.Dir)); errors.Is(err, fs.ErrPermission) { // otherwise each file is an error
		return nil, fmt.Errorf("%s: %w", m.Dir, disk.Cause(err))
	}
	tree, ds, err := m.Load(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.Out.Warnings(append(ds, m.LockProblems...)), m.Missing(tree.Missing)); err != nil {
		return nil, err
	}
	partial := tree.Partial && m.Lock.Exists
	if tree.Empty && !partial && len(tree.Sources) == 0 {
		if m.Reading.Empty || m.Both && m.Modules.HasConfiguration(m.Real(m.Dir)) { // for the other engine
			return nil, nil
		}
		return nil, m.noConfiguration()
	}
	if m.Config.Engine == sources.OpenTofu && !partial { // otherwise the configuration may require either address
		if warning := m.Lock.Migrate(); warning != "" {
			m.Out.Warn("%s", warning)
		}
	}
	m.NoteAssumed(tree.DefaultHost)
	found := &installer.Root{Dir: m.Dir, DataDir: m.Config.DataDir, Lock: m.Lock}
	found.StateUnread, found.Elsewhere = tree.StateUnread, tree.Elsewhere
	if partial || m.Reading.installs() && tree.StateUnread {
		tree.Requirements = append(tree.Requirements, m.Recorded(tree.Requirements)...)
	}
	for _, r := range tree.Sources { // which are recorded in most cases
		isSame := func(known sources.Requirement) bool { return known.Provider == r.Provider }
		if !slices.ContainsFunc(tree.Requirements, isSame) {
			tree.Requirements = append(tree.Requirements, r)
		}
	}
	var errs []error
	for _, r := range tree.Requirements {
		if err := m.CheckOverride(m.Config, r.Provider); err != nil {
			errs = append(errs, err)
			continue
		}
		if m.isUnmanaged(ctx, r) {
			found.Unmanaged = append(found.Unmanaged, r.Provider)
		} else {
			found.Requirements = append(found.Requirements, r)
		}
	}
	return found, errors.Join(errs...)
}

// isUnmanaged reports whether engines use something else than a package of a required provider.
func (m *Root) isUnmanaged(ctx context.Context, r sources.Requirement) bool {
	switch {
	case slices.Contains(m.Config.Unmanaged, r.Provider):
		return true
	case m.Config.DevOverrides[r.Provider] == "":
		return false
	case !m.Reading.installs():
		return m.Overridden(r.Provider)
	}
	return m.IsNewTerraform(ctx) || !m.hasSource(ctx, r)
}

// An emptyError is the error for a root module without configuration. Like init, some commands have nothing
// to do there.
type emptyError struct{ dir string } // empty if the message names it anyway

func (e emptyError) Error() string {
	if e.dir == "" {
		return "nothing to do here: there is no configuration"
	}
	return "nothing to do here: there is no configuration in " + e.dir
}

// noConfiguration returns the emptyError of the root module, with a hint.
func (m *Root) noConfiguration() error {
	empty := emptyError{m.Shown(m.Dir)}
	if len(m.Out.Modules()) > 0 {
		empty.dir = ""
	}
	hint := "-R searches the directories below for root modules"
	if _, tofu := modules.TofuFiles(m.Dir); tofu {
		hint = "only OpenTofu reads the files here: --engine tofu"
	} else if IsFile(filepath.Join(m.Dir, "terragrunt.hcl")) {
		hint = "a unit of Terragrunt needs a lock file here, which terragrunt init writes"
	} else if m.Flags.Recursive {
		return empty
	} else if entries, err := os.ReadDir(m.Dir); err == nil && !slices.ContainsFunc(entries, isVisibleDir) {
		hint = "run the command in the directory of a root module"
	}
	return sources.WithHint(empty, "%s", hint)
}

func isVisibleDir(e os.DirEntry) bool { return e.IsDir() && e.Name()[0] != '.' }

// NeedsIfAny is [Root.Needs] for commands for which a configuration may be optional: without one, it says that there is
// nothing to do.
func (m *Root) NeedsIfAny(ctx context.Context, optional bool) (*installer.Root, error) {
	root, err := m.Needs(ctx)
	if _, empty := errors.AsType[emptyError](err); !empty || !optional {
		return root, err
	}
	m.Out.Say("%v", err)
	for _, hint := range sources.Hints(err) {
		m.Out.Hint("%s", hint)
	}
	return nil, nil
}

// Load reads the configuration. With [Reading.Get], it installs modules that are
// missing or may be others now, or newer ones if it upgrades.
func (m *Root) Load(ctx context.Context) (*modules.Tree, sources.Diagnostics, error) {
	if err := m.Machine.CheckDataDir(m.Dir); err != nil {
		return nil, nil, err
	}
	opts := m.LoadOptions(ctx)
	tree, ds := m.ReadTree(ctx, opts)
	update, get := m.Flags.Upgrade && tree.RemoteModules, m.Reading.Get
	if get != nil && (len(tree.Missing)+len(tree.Unsure) > 0 || update) {
		if err := get(ctx, m, tree, update); err != nil {
			return nil, nil, err
		}
		opts.Cache = nil // get may have replaced modules that were read
		tree, ds = m.ReadTree(ctx, opts)
		tree.Unsure = nil // get has computed them
	}
	m.Differs, m.Required = tree.Differs, slices.Concat(tree.Requirements, tree.Sources)
	for _, d := range tree.Unsure {
		d.Warning = !m.Reading.Certain
		ds = append(ds, d)
	}
	return tree, ds, nil
}

// ReadTree reads the configuration with options. Problems and origins name files by their full paths.
func (m *Root) ReadTree(ctx context.Context, opts modules.Options) (*modules.Tree, sources.Diagnostics) {
	tree, ds := modules.Load(ctx, m.Dir, opts)
	full := func(file *string) {
		if *file != "" {
			*file = Absolute(m.Dir, *file)
		}
	}
	for _, ds := range []sources.Diagnostics{ds, tree.Missing, tree.Unsure} {
		for i := range ds {
			full(&ds[i].File)
		}
	}
	for _, all := range [][]sources.Requirement{tree.Requirements, tree.Sources} {
		for i, r := range all {
			all[i].From = slices.Clone(r.From)
			for j := range r.From {
				full(&all[i].From[j].File)
			}
		}
	}
	return tree, ds
}

// Missing returns the error for calls of modules that are not installed, or nil if there are none.
// The hint is the command that installs the modules, one for all root modules that were searched for.
func (m *Root) Missing(calls sources.Diagnostics) error {
	if len(calls) == 0 {
		return nil
	}
	err := &report.MissingModules{Root: strings.Join(m.Out.Modules(), ""), Calls: calls}
	command := string(m.Config.Engine) + " get"
	where := "to install the modules of this configuration"
	if i := slices.IndexFunc(m.searched, func(dir string) bool { return IsBelow(m.Dir, dir) }); i >= 0 {
		command = "larder"
		if dir := m.searched[i]; dir != m.Machine.WorkDir {
			command += " --chdir " + ShellQuoted(m.Shown(dir))
		}
		if m.Requested.Engine != "" || m.Chosen.Assumed && len(m.EnginesOnPath()) > 1 { // then larder exec assumes none
			command += " --engine " + string(m.Config.Engine)
		}
		command += " exec -R"
		for _, pattern := range m.Flags.Exclude {
			command += " --exclude " + ShellQuoted(pattern)
		}
		command, where = command+" -- "+doesNothing(), "to install the modules and providers of all root modules"
	} else if len(m.Roots) > 1 {
		where = "in each of these root modules"
	} else if m.Dir != m.Machine.WorkDir {
		command = string(m.Config.Engine) + " -chdir=" + ShellQuoted(m.Shown(m.Dir)) + " get"
	}
	return sources.WithHint(err, `run "%s" %s`, command, where)
}

// doesNothing returns a command that does nothing.
func doesNothing() string {
	if runtime.GOOS == "windows" {
		return "cmd /c rem"
	}
	return "true"
}

// Recorded returns a requirement for each entry of the lock file whose provider is not in known.
func (m *Root) Recorded(known []sources.Requirement) []sources.Requirement {
	required := map[sources.Provider]bool{}
	for _, r := range known {
		required[r.Provider] = true
	}
	var all []sources.Requirement
	for _, e := range m.Lock.Entries() {
		if required[e.Provider] {
			continue
		}
		from := sources.Origin{File: m.LockPath, Line: m.Lock.Block(e.Provider), Constraint: e.Constraints.String()}
		all = append(all, sources.Requirement{
			Provider: e.Provider, Constraints: e.Constraints, From: []sources.Origin{from}, Recorded: true,
		})
	}
	return all
}

// Overridden reports whether a development override replaces the provider, so that no package
// of it is required. It prints a warning the first time.
func (m *Root) Overridden(p sources.Provider) bool {
	dir := m.Config.DevOverrides[p]
	if dir == "" {
		return false
	}
	if m.First("override of " + p.String()) {
		m.Output.Warn("%s: skipped: dev_overrides in the CLI configuration replaces it with %s", p, dir)
	}
	return true
}

// hasSource reports whether a provider with a development override can be installed: its version is
// locked, or a source has one.
func (m *Root) hasSource(ctx context.Context, r sources.Requirement) bool {
	if _, locked := m.Lock.Entry(r.Provider); locked && !m.Flags.Upgrade {
		return true
	}
	from, err := m.Source(ctx)
	if err != nil {
		return false
	}
	listing, err := from.Versions(ctx, r.Provider)
	_, ok := r.Constraints.Newest(listing.Versions)
	return err == nil && ok
}

// InstallerOptions returns the options for an installer of the root module, from the flags and
// the configuration. The installer reports its events to tell.
func (m *Root) InstallerOptions(report func(acquire.Event)) installer.Options {
	return installer.Options{
		Options:   acquire.Options{Judge: m.Judge(), Slots: m.slots, Report: report, Lock: m.Again("lock")},
		Platforms: m.Platforms(),
	}
}
