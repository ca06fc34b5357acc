// Package modules finds out which providers a root module requires: from its
// own files, those of the modules it calls, its test files and its state, as
// terraform init and tofu init do.
//
// It is not a validator: it reads the parts of the language that can require a
// provider, and accepts everything else that is syntactically correct. It installs
// no modules, evaluates no expressions that depend on variables, and makes no
// requests: of a state that is not on this machine it only notes that there is one.
//
// It leaves nothing on disk.
package modules

import (
	"cmp"
	"context"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// Options adjust [Load]. The zero Options are ready to use.
type Options struct {
	Engine    sources.Engine // whose rules apply; terraform if empty
	DataDir   string         // relative to the root module or absolute; ".terraform" if empty
	TestDir   string         // where else test files are, relative to the root module; "tests" if empty
	Workspace string         // whose state counts; if empty, the one selected in the data directory

	// KeepStateAddresses makes OpenTofu take addresses on registry.terraform.io
	// in a state as they are, not as their namesakes on registry.opentofu.org.
	KeepStateAddresses bool

	Cache *Cache // of modules that other root modules call too; may be nil
}

func (o Options) withDefaults() Options {
	o.Engine = cmp.Or(o.Engine, sources.Terraform)
	o.DataDir = cmp.Or(o.DataDir, sources.DataDir)
	o.TestDir = cmp.Or(o.TestDir, "tests")
	return o
}

// A Tree is what a root module and all that belongs to it require.
type Tree struct {
	Requirements []sources.Requirement // sorted by provider; built-in ones are left out
	Empty        bool                  // there is no configuration at all
	StateUnread  bool                  // the state cannot be read, and may require more
}

// Load reads the root module in dir. Diagnostics and origins name files
// relative to dir. The Tree is never nil, but complete only if no diagnostic is
// an error; one of them is if ctx ends first.
func Load(ctx context.Context, dir string, opts Options) (*Tree, sources.Diagnostics) {
	w := newWalk(dir, opts.withDefaults())
	root := w.module(".")
	if len(root.files) == 0 && w.diags.Err() == nil { // tests alone are no configuration
		return &Tree{Empty: true}, w.diags.sorted()
	}
	tests := w.tests(root)
	w.require(root.needs)
	w.require(root.imports)
	w.require(tests.needs)
	w.calls(ctx, root.calls, call{dir: "."})
	// What tests call stands for itself, and may well call the root module.
	w.calls(ctx, tests.calls, call{})
	w.state(ctx, root.backend)
	if err := ctx.Err(); err != nil {
		w.diags.fail(place{}, "", "reading the configuration: %v", err)
	}
	return &Tree{Requirements: w.requirements(), StateUnread: w.stateUnread}, w.diags.sorted()
}

// UsesTofuFiles reports whether dir has configuration files that only OpenTofu
// reads. A directory that cannot be read has none.
func UsesTofuFiles(dir string) bool {
	names, err := configNames(dir)
	return err == nil && slices.ContainsFunc(names, forTofuAlone)
}

func forTofuAlone(name string) bool {
	_, ok := twins[extension(name, configExtensions)]
	return ok
}

// requirements are all needs gathered so far, sorted by provider.
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
