package modules

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

const (
	// maxCalls limits the number of module calls that are followed. The largest
	// configurations have a few thousand; a few hostile files can have any number.
	maxCalls = 50_000

	// maxPath limits the nesting depth of calls.
	maxPath = 200

	// maxProviders limits the providers that a root module requires. Real ones require fewer than a hundred, while a
	// hostile file of some megabytes can require a hundred thousand, and a command would look up each one.
	maxProviders = 1000
)

// A walk reads a root module with its called modules, tests and state.
type walk struct {
	root     string // directory of the root module, absolute, without symlinks
	opts     Options
	read     map[string]*module // by directory
	dirs     map[string]string  // of modules, without symlinks, by path; empty if there is no directory
	paths    map[string]bool    // of [Tree.Paths]
	manifest manifest

	noDataDir bool // a file is in its place, which is an error

	followed int // number of module calls
	diags    diagnostics
	needs    map[sources.Provider]*sources.Requirement
	full     bool // there are more than maxProviders, and the rest is not read
	origins  map[origin]bool
	missing  diagnostics // about calls of modules that are not installed as required
	unsure   diagnostics // about calls whose source or version is not known

	scopes     map[string]*scope // by directory
	scopeSize  int64
	given      map[string]*input // see inputs; nil if not read
	known      map[string]value  // of variables and locals, by the call of their module
	references int               // of known values that refer to each other

	tree *Tree // the result
}

// An origin is a recorded need for a provider.
type origin struct {
	provider sources.Provider
	sources.Origin
}

// A call is a module at its position in the tree.
type call struct {
	name   string // of the module block
	key    string // dotted path of calls, as in the manifest; empty for the root module
	dir    string // relative to the root module; empty for the parent of all modules
	parent *call
}

func newWalk(dir string, opts Options) *walk {
	root, err := filepath.Abs(dir)
	if err != nil { // there is no current directory
		root = dir
	}
	w := &walk{
		root: opts.Cache.Reals.Of(root), opts: opts,
		read:    map[string]*module{},
		dirs:    map[string]string{},
		paths:   map[string]bool{},
		needs:   map[sources.Provider]*sources.Requirement{},
		origins: map[origin]bool{},
		tree:    &Tree{},
		scopes:  map[string]*scope{},
		known:   map[string]value{},
	}
	w.readManifest()
	return w
}

// path returns the absolute path of a file or directory relative to the root module, and notes that it is read.
func (w *walk) path(name string) string {
	path := pathIn(w.root, name)
	w.paths[path] = true
	return path
}

// module returns the called module, and requires its needs when it is read first.
func (w *walk) module(at call) *module {
	if m, ok := w.read[at.dir]; ok {
		return m
	}
	m := w.opts.Cache.read(part{path: w.path(at.dir), engine: w.opts.Engine})
	w.read[at.dir] = m
	w.diags.add(at.dir, m.diags)
	w.require(at, m.needs)
	w.tree.DefaultHost = w.tree.DefaultHost || m.defaultHost
	w.tree.Differs = w.tree.Differs || m.differs
	return m
}

// units reads the sources of units in the directories dirs, without what Terragrunt generates there or installs
// elsewhere. Those that don't exist are skipped.
func (w *walk) units(ctx context.Context, dirs []string) {
	if len(dirs) == 0 {
		return
	}
	from := newWalk(w.root, w.opts)
	from.paths = w.paths
	for _, dir := range dirs {
		if _, err := os.Stat(w.path(dir)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		top := call{dir: relative(w.root, dir)}
		m := from.module(top)
		tests := w.opts.Cache.read(part{dir, w.opts.Engine, w.opts.TestDir})
		from.require(top, m.imports)
		from.require(top, tests.needs)
		from.calls(ctx, m.calls, top)
	}
	for _, d := range from.diags.Diagnostics {
		if !d.Warning {
			w.diags.Diagnostics = append(w.diags.Diagnostics, d)
		}
	}
	w.tree.Sources, w.tree.Differs, w.tree.DefaultHost = from.requirements(), from.tree.Differs, from.tree.DefaultHost
}

// address returns the address of the module, as in module.net.module.dns. It is empty for the root module, and for
// the modules of tests, which have none.
func (c call) address() string {
	for p := c.parent; p != nil; p = p.parent {
		if p.parent == nil && p.dir == "." {
			return "module." + strings.ReplaceAll(c.key, ".", ".module.")
		}
	}
	return ""
}

// require adds needs of the module to the requirements, once for each place.
func (w *walk) require(by call, needs []need) {
	for _, n := range needs {
		if w.full {
			return
		}
		n.at = placeIn(by.dir, n.at)
		from := origin{n.provider, n.origin()}
		from.Module = by.address()
		if w.origins[from] || !w.diags.installable(n, w.opts.Engine) {
			continue
		}
		w.origins[from] = true
		if w.needs[n.provider] == nil {
			if w.full = len(w.needs) == maxProviders; w.full {
				w.diags.tooMany(n.at)
				return
			}
			w.needs[n.provider] = &sources.Requirement{Provider: n.provider}
		}
		n.addTo(w.needs[n.provider], from.Origin)
	}
}

// tooMany adds the error for more than maxProviders.
func (ds *diagnostics) tooMany(at place) {
	ds.fail(at, "split the root module into several, each with its own state",
		"the root module requires more than %d providers", maxProviders)
}

// placeIn returns a place in a file of the module in dir.
func placeIn(dir string, at place) place {
	at.Filename = filepath.Join(dir, at.Filename)
	return at
}

// installable reports whether a package can exist for a need or the provider is built
// in. Otherwise it adds an error.
func (ds *diagnostics) installable(n need, e sources.Engine) bool {
	p := n.provider
	switch {
	case p.Legacy():
		hint := `name its namespace, such as "hashicorp/` + p.Type + `"`
		ds.fail(n.at, hint, "provider %s has no namespace, as in Terraform 0.12", p)
	case p.BuiltIn() && p.Type != "terraform":
		ds.fail(n.at, "the only built-in provider is "+implied("terraform", e).String(), "provider %s is not built in", p)
	case p.BuiltIn() && n.version.text != "":
		ds.fail(n.at, "leave out the version", "provider %s is built in and takes no version constraint", p)
	default:
		return true
	}
	return false
}

// calls follows the module calls in parent.
func (w *walk) calls(ctx context.Context, calls []moduleCall, parent call) {
	for _, c := range calls {
		if ctx.Err() != nil || w.followed > maxCalls || w.full {
			return
		}
		c.at = placeIn(parent.dir, c.at)
		if w.followed++; w.followed > maxCalls {
			w.diags.fail(c.at, "", "more than %d module calls", maxCalls)
			return
		}
		if _, ok := w.manifest[c.longKey]; ok && c.longKey != "" {
			c.key = c.longKey
		}
		child := call{name: c.name, key: strings.TrimPrefix(parent.key+"."+c.key, "."), parent: &parent}
		var ok bool
		if child.dir, ok = w.locate(c, child); !ok || w.endless(c, child) {
			continue
		}
		m := w.module(child)
		w.passes(c, parent, m)
		w.calls(ctx, m.calls, child)
	}
}

// passes checks that a call passes only providers with the addresses that the called module requires. Like the engines,
// it takes the local name in the called module first, if the caller requires a provider with that name.
func (w *walk) passes(c moduleCall, parent call, to *module) {
	from := w.read[parent.dir]
	if from == nil || from.diags.Err() != nil || to.diags.Err() != nil { // tests pass any; otherwise names may be missing
		return
	}
	for _, p := range c.passes {
		ours, ok := from.names[p.theirs]
		if !ok || p.aliased {
			ours = from.provider(p.ours, w.opts.Engine)
		}
		if theirs := to.provider(p.theirs, w.opts.Engine); ours != theirs {
			w.diags.fail(placeIn(parent.dir, p.at), "write the same source in required_providers of both modules",
				"module %q: the provider passed as %s is %s, but the module requires %s", c.name, p.theirs, ours, theirs)
		}
	}
}

// endless reports whether a module calls itself, directly or through other modules.
func (w *walk) endless(c moduleCall, child call) bool {
	depth := 0
	for p := child.parent; p != nil; p = p.parent {
		depth++
		if p.dir == child.dir || depth > maxPath {
			w.diags.fail(c.at, "", "module %q: calls itself", c.name)
			return true
		}
	}
	return false
}

// locate returns the directory of a called module.
func (w *walk) locate(c moduleCall, child call) (dir string, ok bool) {
	entry, installed := w.manifest[child.key]
	if c.computed {
		var unknown string
		if c, unknown = w.compute(c, *child.parent); unknown != "" {
			w.unsure.fail(c.at, "set it for this command, in TF_VAR_NAME, TF_CLI_ARGS_init or terraform.tfvars",
				"module %q: its source or version depends on %s, which is not known here", c.name, unknown)
			c.source, c.version = entry.Source, ""
		}
	}
	switch {
	case c.source == "" && !c.computed:
		w.diags.fail(c.at, "", "module %q: has no source", c.name)
		return "", false
	case isLocal(c.source) && !w.opts.KeepModules:
		dir = filepath.Join(child.parent.dir, filepath.FromSlash(c.source))
	case !installed:
		w.absent(c.at, "module %q: not installed", c.name)
		return "", false
	case entry.Source != c.source && normalSource(entry.Source, w.opts.Engine) != normalSource(c.source, w.opts.Engine):
		w.absent(c.at, "module %q: installed from %q, while its source is now %q", c.name, entry.Source, c.source)
		return "", false
	case !allows(c.version, entry.Version):
		version := cmp.Or(entry.Version, "unknown")
		w.absent(c.at, "module %q: installed version is %s, while %q is required", c.name, version, c.version)
		return "", false
	default:
		dir = entry.Dir
	}
	w.tree.RemoteModules = w.tree.RemoteModules || !isLocal(c.source)
	return w.moduleDir(c, dir)
}

// moduleDir checks that a directory exists, and returns its path independent of
// symlinks.
func (w *walk) moduleDir(c moduleCall, dir string) (string, bool) {
	path, known := w.dirs[dir]
	if !known {
		path = w.opts.Cache.Reals.Of(w.path(dir))
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			path = ""
		}
		w.dirs[dir] = path
	}
	if path == "" {
		if isLocal(c.source) {
			w.diags.fail(c.at, "the source of a module is relative to the directory it is called from",
				"module %q: no directory %s", c.name, dir)
		} else {
			w.absent(c.at, "module %q: no directory %s", c.name, dir)
		}
		return "", false
	}
	return relative(w.root, path), true
}

// absent adds a call of a module that get has to install, unless get can't install any.
func (w *walk) absent(at place, format string, args ...any) {
	if !w.noDataDir {
		w.missing.fail(at, "", format, args...)
	}
}

// isLocal reports whether source is a path relative to the calling module.
func isLocal(source string) bool {
	return slices.ContainsFunc([]string{"./", "../", `.\`, `..\`}, func(prefix string) bool {
		return strings.HasPrefix(source, prefix)
	})
}

// slashed returns a source, with slashes instead of backslashes if it is local, as engines read it on every system.
func slashed(source string) string {
	if isLocal(source) {
		return strings.ReplaceAll(source, `\`, "/")
	}
	return source
}
