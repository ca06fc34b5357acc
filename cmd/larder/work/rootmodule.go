package work

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
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// needs returns the requirements of the root module with its locked versions. Where the
// configuration is elsewhere, the lock file's entries are requirements too. If there is neither
// configuration nor a lock file, it returns an [emptyError], or nil where that is not a mistake.
func (m *rootModule) needs(ctx context.Context) (*installer.Root, error) {
	if _, err := os.ReadDir(m.dir); errors.Is(err, fs.ErrPermission) { // otherwise every file would be an error
		return nil, fmt.Errorf("%s: %w", m.dir, disk.Cause(err))
	}
	tree, ds, err := m.load(ctx)
	if err != nil {
		return nil, err
	}
	for _, ds := range []sources.Diagnostics{ds, tree.Missing} {
		for i, d := range ds {
			ds[i].File = m.full(d.File)
		}
	}
	if err := errors.Join(m.out.Warnings(append(ds, m.lockProblems...)), m.missing(tree.Missing)); err != nil {
		return nil, err
	}
	partial := tree.Partial && m.lock.Exists
	if tree.Empty && !partial && len(tree.Sources) == 0 {
		if m.mayBeEmpty || m.both && modules.HasConfiguration(m.dir) { // for the other engine
			return nil, nil
		}
		return nil, m.noConfiguration()
	}
	if m.config.Engine == sources.OpenTofu && !partial { // otherwise the configuration may require either address
		if warning := m.lock.Migrate(); warning != "" {
			m.out.Warn("%s", warning)
		}
	}
	m.noteAssumed(tree.DefaultHost)
	found := &installer.Root{Dir: m.dir, DataDir: m.config.DataDir, Lock: m.lock, StateUnread: tree.StateUnread, Elsewhere: tree.Elsewhere}
	if partial || m.lockedToo && tree.StateUnread {
		tree.Requirements = append(tree.Requirements, m.recorded(lockfile.Name, tree.Requirements)...)
	}
	for _, r := range tree.Sources { // which are recorded in most cases
		isSame := func(known sources.Requirement) bool { return known.Provider == r.Provider }
		if !slices.ContainsFunc(tree.Requirements, isSame) {
			tree.Requirements = append(tree.Requirements, r)
		}
	}
	var errs []error
	for _, r := range tree.Requirements {
		if err := m.checkOverride(m.config, r.Provider); err != nil {
			errs = append(errs, err)
			continue
		}
		r.From = slices.Clone(r.From)
		for i, from := range r.From {
			r.From[i].File = m.full(from.File)
		}
		unmanaged := slices.Contains(m.config.Unmanaged, r.Provider)
		if !unmanaged && m.config.DevOverrides[r.Provider] != "" {
			if m.overriddenToo == nil {
				unmanaged = m.overridden(r.Provider)
			} else {
				unmanaged = !m.overriddenToo(ctx, m) || !m.hasSource(ctx, r)
			}
		}
		if unmanaged {
			found.Unmanaged = append(found.Unmanaged, r.Provider)
		} else {
			found.Requirements = append(found.Requirements, r)
		}
	}
	return found, errors.Join(errs...)
}

// An emptyError is the error for a root module without configuration. Like init, some commands have nothing
// to do there.
type emptyError struct{ dir string } // empty if the message names it anyway

func (e emptyError) Error() string {
	if e.dir == "" {
		return "there is no configuration"
	}
	return "there is no configuration in " + e.dir
}

// noConfiguration returns the emptyError of the root module, with a hint.
func (m *rootModule) noConfiguration() error {
	empty := emptyError{m.shown(m.dir)}
	if len(m.out.Modules()) > 0 {
		empty.dir = ""
	}
	hint := "-R searches the directories below for root modules"
	if _, tofu := modules.TofuFiles(m.dir); tofu {
		hint = "only OpenTofu reads the files here: --engine tofu"
	} else if isFile(filepath.Join(m.dir, "terragrunt.hcl")) {
		hint = "a unit of Terragrunt needs a lock file here, which terragrunt init writes"
	} else if m.flags.Recursive {
		return empty
	} else if entries, err := os.ReadDir(m.dir); err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() && e.Name()[0] != '.' }) {
		hint = "run the command in the directory of a root module"
	}
	return sources.WithHint(empty, "%s", hint)
}

// needsIfAny is needs for commands that have nothing to do without configuration.
func (m *rootModule) needsIfAny(ctx context.Context) (*installer.Root, error) {
	root, err := m.needs(ctx)
	if _, empty := errors.AsType[emptyError](err); !empty {
		return root, err
	}
	m.out.Say("%v: nothing to do", err)
	for _, hint := range sources.Hints(err) {
		m.out.Hint("%s", hint)
	}
	return nil, nil
}

// load reads the configuration. If the session installs modules, it installs those that are
// missing or may be others now, or newer ones if it upgrades.
func (m *rootModule) load(ctx context.Context) (*modules.Tree, sources.Diagnostics, error) {
	if err := m.machine.CheckDataDir(m.dir); err != nil {
		return nil, nil, err
	}
	opts := m.loadOptions(ctx)
	tree, ds := modules.Load(ctx, m.dir, opts)
	if update := m.flags.Upgrade && tree.RemoteModules; m.getModules != nil && (len(tree.Missing)+len(tree.Unsure) > 0 || update) {
		if err := m.getModules(ctx, m, tree, update); err != nil {
			return nil, nil, err
		}
		opts.Cache = nil // get may have replaced modules that were read
		tree, ds = modules.Load(ctx, m.dir, opts)
		tree.Unsure = nil // get has computed them
	}
	m.differs = tree.Differs
	for _, d := range tree.Unsure {
		d.Warning = !m.certain
		ds = append(ds, d)
	}
	return tree, ds, nil
}

// loadOptions returns the options with which the configuration is read.
func (m *rootModule) loadOptions(ctx context.Context) modules.Options {
	return modules.Options{
		Engine:             m.config.Engine,
		DataDir:            m.config.DataDir,
		TestDir:            m.testDir,
		TestsAlone:         func() bool { return m.readsTestsAlone(ctx) },
		NoBackend:          m.noBackend,
		KeepModules:        m.keepModules,
		DeclaredOnly:       m.declaredOnly != nil && m.declaredOnly(ctx, m),
		Here:               m.runsHere && m.dir == m.workDir,
		Workspace:          m.config.Workspace,
		KeepStateAddresses: !m.config.TranslateStateAddresses,
		Inputs:             m.inputs(),
		Cache:              &m.modules,
	}
}

// missing returns the error for calls of modules that are not installed, or nil if there are none.
// The hint is the command that installs the modules, one for all root modules that were searched for.
func (m *rootModule) missing(calls sources.Diagnostics) error {
	if len(calls) == 0 {
		return nil
	}
	err := &report.MissingModules{Root: strings.Join(m.out.Modules(), ""), Calls: calls}
	command := string(m.config.Engine) + " get"
	where := "to install the modules of this configuration"
	if i := slices.IndexFunc(m.searched, func(dir string) bool { return isBelow(m.dir, dir) }); i >= 0 {
		command = "larder"
		if dir := m.searched[i]; dir != m.machine.WorkDir {
			command += " --chdir " + shellQuoted(m.shown(dir))
		}
		if m.requested.engine != "" || m.chosen.assumed && len(m.enginesOnPath()) > 1 { // then larder exec assumes none
			command += " --engine " + string(m.config.Engine)
		}
		command += " exec -R"
		for _, pattern := range m.flags.Exclude {
			command += " --exclude " + shellQuoted(pattern)
		}
		command, where = command+" -- "+doesNothing(), "to install the modules and providers of all root modules"
	} else if len(m.roots) > 1 {
		where = "in each of these root modules"
	} else if m.dir != m.machine.WorkDir {
		command = string(m.config.Engine) + " -chdir=" + shellQuoted(m.shown(m.dir)) + " get"
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

// recorded returns a requirement for each entry of the lock file whose provider is not in known.
// File is the name of the lock file.
func (m *rootModule) recorded(file string, known []sources.Requirement) []sources.Requirement {
	required := map[sources.Provider]bool{}
	for _, r := range known {
		required[r.Provider] = true
	}
	var all []sources.Requirement
	for _, e := range m.lock.Entries() {
		if required[e.Provider] {
			continue
		}
		from := sources.Origin{File: file, Line: m.lock.Block(e.Provider), Constraint: e.Constraints.String()}
		all = append(all, sources.Requirement{Provider: e.Provider, Constraints: e.Constraints, From: []sources.Origin{from}, Recorded: true})
	}
	return all
}

// full returns the full path of a file relative to the root module.
func (m *rootModule) full(file string) string {
	if file == "" {
		return ""
	}
	return Absolute(m.dir, file)
}

// overridden reports whether a development override replaces the provider, so that no package
// of it is required. It prints a warning the first time.
func (m *rootModule) overridden(p sources.Provider) bool {
	dir := m.config.DevOverrides[p]
	if dir == "" {
		return false
	}
	_, _ = m.overrides.get(p, func() (string, error) {
		m.output.Warn("%s: skipped: dev_overrides in the CLI configuration replaces it with %s", p, dir)
		return dir, nil
	})
	return true
}

// hasSource reports whether a provider with a development override can be installed: its version is
// locked, or a source has one.
func (m *rootModule) hasSource(ctx context.Context, r sources.Requirement) bool {
	if _, locked := m.lock.Entry(r.Provider); locked && !m.flags.Upgrade {
		return true
	}
	from, err := m.source(ctx)
	if err != nil {
		return false
	}
	listing, err := from.Versions(ctx, r.Provider)
	_, ok := r.Constraints.Newest(listing.Versions)
	return err == nil && ok
}

// installerOptions returns the options for an installer of the root module, from the flags and
// the configuration. The installer reports its events to tell.
func (m *rootModule) installerOptions(report func(acquire.Event)) installer.Options {
	return installer.Options{
		Options:   acquire.Options{Judge: m.judge(), Slots: m.slots, Report: report},
		Platforms: m.platforms(),
	}
}
