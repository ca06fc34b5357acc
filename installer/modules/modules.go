// Package modules determines which providers a root module requires: from its own
// files, the modules it calls, its test files and its state, as terraform init and
// tofu init do.
//
// It is not a validator: it reads the parts of the language that can require a
// provider, and refuses what isn't in its place there. It accepts any other syntactically
// correct text. It installs no modules, evaluates only the sources and versions of modules,
// and sends no requests. If a state is not on this machine, it only reports that.
//
// It leaves nothing on disk.
package modules

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// Options configure [Load]. The zero Options are ready to use.
type Options struct {
	Engine    sources.Engine // whose rules apply; terraform if empty
	DataDir   string         // absolute or relative to the root module; ".terraform" if empty
	TestDir   string         // additional directory of test files, relative to the root module; "tests" if empty
	Workspace string         // whose state is read; if empty, the one selected in the data directory

	// KeepStateAddresses disables the mapping of addresses on registry.terraform.io
	// in a state to the same addresses on registry.opentofu.org. Only OpenTofu maps
	// them.
	KeepStateAddresses bool

	// TestsAlone reports whether Terraform reads a root module that has only tests, as it does since 1.12. OpenTofu
	// doesn't. A nil TestsAlone reports true.
	TestsAlone func() bool

	NoBackend bool // init ignores the configured backend, and uses the one that the data directory records

	KeepModules bool // init installs no modules, and takes only those that it has recorded, also if their source is local

	// Here states that an engine runs in the root module itself. Otherwise Terragrunt may
	// run it in a copy, where this directory has a configuration file of Terragrunt too.
	Here bool

	Inputs Inputs // for the sources and versions of modules that depend on variables

	Cache *Cache // for modules that several root modules call; may be nil
}

// defaultTests is the directory of a root module with more tests.
const defaultTests = "tests"

func (o Options) withDefaults() Options {
	o.Engine = cmp.Or(o.Engine, sources.Terraform)
	o.DataDir = cmp.Or(o.DataDir, sources.DataDir)
	o.TestDir = cmp.Or(o.TestDir, defaultTests)
	o.Cache = cmp.Or(o.Cache, new(Cache))
	return o
}

// A Tree holds the requirements of a root module with its called modules, tests and
// state.
type Tree struct {
	Requirements []sources.Requirement // sorted by provider, without built-in providers
	Empty        bool                  // the engine reads no configuration here
	Partial      bool                  // the configuration is elsewhere, for example in a module that Terragrunt runs
	Elsewhere    bool                  // Terragrunt runs engines in another directory, with the lock file of this one
	DefaultHost  bool                  // an address has no host, so that it depends on the engine
	StateUnread  bool                  // the state cannot be read and may require more
	Differs      bool                  // some of the files are for one engine alone

	// Sources are the requirements of the local modules that Terragrunt runs as units here. The configuration that it
	// generates may change them.
	Sources []sources.Requirement

	// Paths lists what was read or looked for: directories with configuration or tests, and files elsewhere. They are
	// absolute, sorted, and may lead through symlinks.
	Paths []string

	RemoteModules bool // the configuration calls modules that the engine's get installs

	// Missing lists the calls of modules that get must install, or install in another version.
	Missing sources.Diagnostics

	// Unsure lists the calls of modules whose source or version depends on what is not known. If such a module is
	// installed, it is read.
	Unsure sources.Diagnostics
}

// Load reads the root module in dir. Diagnostics and origins contain file names
// relative to dir. The Tree is never nil, but it is complete only if no diagnostic is
// an error and no module is missing. If ctx is done early, the diagnostics include an error.
func Load(ctx context.Context, dir string, opts Options) (*Tree, sources.Diagnostics) {
	w := newWalk(dir, opts.withDefaults())
	unit := &terragrunt{cache: w.opts.Cache, reads: func(path string) { w.path(path) }}
	elsewhere := !opts.Here && unit.elsewhere(w.root)
	if !opts.Here {
		w.units(ctx, unit.sources(w.root))
	}
	top := call{dir: "."}
	root := w.module(top)
	defer func() { w.tree.Paths = slices.Sorted(maps.Keys(w.paths)) }()
	w.path(w.opts.TestDir)
	tests := w.opts.Cache.read(part{w.root, w.opts.Engine, w.opts.TestDir})
	w.tree.Differs = w.tree.Differs || tests.differs
	alone := len(tests.tests) > 0 && w.opts.Engine == sources.Terraform
	alone = alone && (w.opts.TestsAlone == nil || w.opts.TestsAlone())
	if len(root.files) == 0 && w.diags.Err() == nil && !alone {
		names, _ := w.opts.Cache.configNames(w.root) // those of the other engine
		w.tree.Empty, w.tree.Elsewhere, w.tree.Partial = true, elsewhere, !slices.ContainsFunc(names, excludesUnits)
		return w.tree, w.diags.sorted()
	}
	w.diags.add(".", tests.diags)
	w.require(top, root.imports)
	w.require(top, tests.needs)
	w.calls(ctx, root.calls, top)
	// Modules that tests call are separate trees, and may include the root module.
	w.calls(ctx, tests.calls, call{})
	if w.opts.NoBackend {
		w.state(nil)
	} else {
		w.state(root.backend)
	}
	if err := ctx.Err(); err != nil {
		w.diags.fail(place{}, "", "reading the configuration: %v", err)
	}
	w.missing.files, w.unsure.files = w.diags.files, w.diags.files
	w.tree.Requirements, w.tree.Missing, w.tree.Unsure = w.requirements(), w.missing.sorted(), w.unsure.sorted()
	w.tree.Partial, w.tree.Elsewhere = elsewhere || len(w.tree.Sources) > 0, elsewhere
	return w.tree, w.diags.sorted()
}

// TofuFiles reports whether dir has configuration files that only OpenTofu reads: twins, each of
// which it reads in place of a file for Terraform, and others, without which Terraform can't work
// there. Of an unreadable directory it reports neither.
func TofuFiles(dir string) (twins, others bool) {
	names, _ := configNames(dir)
	for _, name := range names {
		if hides := hiddenBy(name, configExtensions); hides != "" {
			twin := slices.Contains(names, hides)
			twins, others = twins || twin, others || !twin
		}
	}
	return twins, others
}

// HasConfiguration reports whether a directory has files with configuration, or tests.
func (c *Cache) HasConfiguration(dir string) bool {
	names, _ := c.configNames(dir)
	return slices.ContainsFunc(names, IsConfiguration) || slices.ContainsFunc(append(names, c.testNames(dir)...), isTest)
}

// requirements returns the needs collected so far, sorted by provider.
func (w *walk) requirements() []sources.Requirement {
	var all []sources.Requirement
	for _, r := range w.needs {
		if !r.Provider.BuiltIn() {
			all = append(all, *r)
		}
	}
	slices.SortFunc(all, func(a, b sources.Requirement) int { return a.Provider.Compare(b.Provider) })
	return all
}
