package modules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// RootsOptions configure [Roots]. The zero RootsOptions are ready to use.
type RootsOptions struct {
	Engine  sources.Engine // whose files are read; if empty, those of both, each with its own
	DataDir string         // absolute or relative to each root module; ".terraform" if empty

	// Exclude are globs of directories to skip, with / between names and ** for any
	// number of names. A glob without / matches names at any depth.
	Exclude []string

	// Excluded is called for a glob that excludes a directory; it may be nil.
	Excluded func(glob string)

	// EngineOf returns the engine for which a root module is read, if Engine is empty, and whether that is only the
	// default. It returns "" for both engines, as a nil EngineOf does.
	EngineOf func(dir string) (e sources.Engine, assumed bool)

	// TestsAlone and Inputs are as in [Options].
	TestsAlone func() bool
	Inputs     Inputs

	Cache *Cache // to share with a later Load of the root modules; may be nil
}

var bothEngines = []sources.Engine{sources.Terraform, sources.OpenTofu}

// Roots returns the root modules in dir and below, as sorted paths relative to dir.
//
// A directory with a lock file is a root module, also without configuration files:
// Terragrunt keeps lock files beside its own files, and runs engines elsewhere. A
// directory with configuration files is one unless [Load] of another root module reads it for the
// same engine: because of its calls, the calls of its tests, or as the source of a unit of Terragrunt.
// If nothing decides between the engines, Load for any engine that reads the same files suffices. If
// directories call each other and nothing else reaches them, the first one is a root
// module. A directory with a state is one too, and one with a backend or import blocks, unless it
// is the source of a unit, which sets the backend. So every configuration is read with a root module.
// A directory with tests alone is one if Terraform reads it as such, and if no directory
// above it has configuration, which these tests may be for. Stacks are none.
//
// Hidden directories and data directories are skipped, except .terragrunt-stack, where Terragrunt
// keeps the units of a stack. A link leads to a directory that is skipped otherwise.
//
// The error joins the errors of invalid globs, which match [path.ErrBadPattern], of directories
// that could not be read, and of links to root modules outside of the repository; the others are returned. An
// invalid configuration is not an error here: Load reports it.
func Roots(ctx context.Context, dir string, opts RootsOptions) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	opts.Cache = cmp.Or(opts.Cache, new(Cache))
	s := &search{dir: dir, top: realPath(dir), opts: opts, at: map[string]*candidate{}, seen: map[string]bool{}}
	s.terragrunt = terragrunt{cache: opts.Cache}
	for _, glob := range opts.Exclude {
		pattern, err := parseGlob(glob)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", glob, err)
		}
		s.exclude = append(s.exclude, exclusion{glob, pattern})
	}
	s.look(ctx, spotted{dir: ".", path: s.top})
	for ; len(s.links) > 0; s.links = s.links[1:] {
		s.enter(ctx, s.links[0])
	}
	s.readAll(ctx)
	if s.computed.Load() {
		s.follow(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dirs := s.roots()
	return dirs, errors.Join(s.errs...)
}

// A search is a search for root modules.
type search struct {
	dir     string
	top     string // dir without symlinks
	opts    RootsOptions
	exclude []exclusion
	found   []*candidate
	at      map[string]*candidate // by their path
	seen    map[string]bool       // directories that were searched, by their path
	links   []spotted             // that were not followed yet
	errs    []error

	terragrunt terragrunt

	computed atomic.Bool // the source of a module is not constant
}

// A spotted directory is one that the search comes to.
type spotted struct {
	dir        string // relative
	path       string // absolute, without symlinks; not known for a link
	configured bool   // a directory above has configuration
	outside    bool   // of the repository
}

// A candidate is a directory with configuration files, a lock file, or files of
// Terragrunt.
type candidate struct {
	dir        string           // relative
	path       string           // absolute, without symlinks
	engines    []sources.Engine // that have configuration files here
	chosen     []sources.Engine // for which it is read if it is a root module
	assumed    bool             // nothing has decided between the engines
	configured bool             // has configuration files, or tests alone
	testsAlone bool
	locked     bool // has a lock file or a state, and configuration files for the engine; or a lock file alone
	rootOnly   bool // has a backend or imports, which only root modules have
	unit       bool // has files of Terragrunt
	outside    bool // of the repository

	// The directories that its modules, tests and units name, absolute and without symlinks. Only of a root module,
	// engines read the tests and units, and know the variables that lead to computed sources.
	calls     map[sources.Engine][]string
	rootCalls map[sources.Engine][]string // of tests, and with computed sources
	sources   []string                    // of its units

	root    bool
	run     bool                    // is the source of a unit that is a root module
	reached map[sources.Engine]bool // by a root module that is read for this engine
}

// view returns the engine for which c was read with the result for e, or "" if e has no configuration
// files here.
func (c *candidate) view(e sources.Engine) sources.Engine {
	switch {
	case slices.Contains(c.engines, e):
		return e
	case slices.Contains(c.engines, sources.Terraform): // otherwise it would have been read for both
		return sources.Terraform
	}
	return ""
}

// roots returns the candidates that are root modules.
func (s *search) roots() []string {
	callersFirst := s.callersFirst()
	for _, is := range []func(c *candidate) bool{
		func(c *candidate) bool { return c.locked },
		func(c *candidate) bool { return c.rootOnly && !c.run },
		func(c *candidate) bool {
			return c.configured && !c.covered() && slices.ContainsFunc(c.chosen, s.reads(c))
		},
	} {
		for _, c := range callersFirst {
			if !c.root && is(c) {
				s.choose(c)
			}
		}
	}
	var dirs []string
	for _, c := range s.found {
		switch {
		case c.root && c.outside:
			err := fmt.Errorf("looking for root modules: %s is a link to a root module outside of the repository: %s",
				filepath.Join(s.dir, c.dir), c.path)
			s.errs = append(s.errs, sources.WithHint(err, "name that directory instead, and skip the link with --exclude"))
		case c.root:
			dirs = append(dirs, c.dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// reads returns a function that reports whether an engine reads c as a root module.
func (s *search) reads(c *candidate) func(e sources.Engine) bool {
	return func(e sources.Engine) bool {
		can := e == sources.Terraform && slices.Contains(c.engines, e)
		return !c.testsAlone || can && (s.opts.TestsAlone == nil || s.opts.TestsAlone())
	}
}

// callersFirst returns the candidates in an order in which callers precede what they call. Of those that
// call each other, the first one found is the first.
func (s *search) callersFirst() (all []*candidate) {
	seen := map[*candidate]bool{}
	var visit func(dirs []string)
	visit = func(dirs []string) {
		for _, dir := range dirs {
			c := s.at[dir]
			if c == nil || seen[c] {
				continue
			}
			seen[c] = true
			visit(c.sources)
			for _, e := range c.engines {
				visit(c.calls[e])
				visit(c.rootCalls[e])
			}
			all = append(all, c)
		}
	}
	for _, c := range s.found {
		visit([]string{c.path})
	}
	slices.Reverse(all)
	return all
}

// covered reports whether root modules reach c for each engine for which it would be read, or for the other one if only
// that has files here.
func (c *candidate) covered() bool {
	engines := slices.DeleteFunc(slices.Clone(c.chosen), func(e sources.Engine) bool { return c.view(e) == "" })
	if len(engines) == 0 {
		engines = c.engines
	}
	return !c.testsAlone && !slices.ContainsFunc(engines, func(e sources.Engine) bool {
		return !slices.ContainsFunc(bothEngines, func(by sources.Engine) bool {
			return c.reached[by] && (by == e || c.assumed && c.view(by) == c.view(e))
		})
	})
}

// choose makes c a root module.
func (s *search) choose(c *candidate) {
	c.root = true
	for _, dir := range c.sources {
		if source := s.at[dir]; source != nil {
			source.run = true
		}
	}
	for _, e := range c.chosen {
		s.reach(c.sources, e)
		if view := c.view(e); s.reads(c)(e) {
			s.reach(slices.Concat(c.calls[view], c.rootCalls[view]), e)
		}
	}
}

// reach notes that a root module calls the modules in dirs for an engine.
func (s *search) reach(dirs []string, e sources.Engine) {
	for _, dir := range dirs {
		if c := s.at[dir]; c != nil && !c.reached[e] {
			c.reached[e] = true
			s.reach(c.calls[c.view(e)], e)
		}
	}
}

// look searches a directory and those below it.
func (s *search) look(ctx context.Context, at spotted) {
	if ctx.Err() != nil || s.seen[at.path] {
		return
	}
	s.seen[at.path] = true
	entries, err := s.opts.Cache.List(at.path)
	if err != nil {
		s.unread(err)
		return
	}
	configured := s.consider(at, entries)
	if s.at[at.path] == nil {
		s.opts.Cache.lists.Forget(at.path) // there may be a great many
	}
	for _, entry := range entries {
		name := entry.Name()
		below := spotted{dir: filepath.Join(at.dir, name), path: filepath.Join(at.path, name), configured: configured}
		hidden := strings.HasPrefix(name, ".") && name != stackDir
		switch {
		case !entry.IsDir() && !disk.IsLink(entry.Type()):
		case s.excluded(below.dir) || at.outside || hidden || s.isDataDir(below.dir):
		case entry.IsDir():
			s.look(ctx, below)
		default:
			s.links = append(s.links, below)
		}
	}
}

// enter searches the directory to which a link leads, unless the search comes there otherwise. Outside of the
// repository, it searches only the directory itself.
func (s *search) enter(ctx context.Context, link spotted) {
	info, err := os.Stat(link.path)
	if errors.Is(err, fs.ErrPermission) {
		s.unread(err)
	}
	if err != nil || !info.IsDir() {
		return
	}
	link.path = realPath(link.path)
	link.outside = !contains(cmp.Or(above(s.top, ".git"), s.top), link.path)
	if !contains(link.path, s.top) { // which would lead to everything else
		s.look(ctx, link)
	}
}

// contains reports whether path is that of a directory or of something below it.
func contains(dir, path string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(below)
}

// unread notes the error of a directory that can't be read.
func (s *search) unread(err error) {
	err = fmt.Errorf("looking for root modules: %w", err)
	s.errs = append(s.errs, sources.WithHint(err, "make the directory readable, or skip it with --exclude"))
}

// isDataDir reports whether a directory is an engine's data directory, which also
// contains downloaded modules.
func (s *search) isDataDir(dir string) bool {
	data := filepath.Clean(s.opts.DataDir)
	if filepath.IsAbs(data) {
		return filepath.Join(s.dir, dir) == data
	}
	between := string(filepath.Separator)
	return strings.HasSuffix(between+dir, between+data)
}

// parseGlob splits a glob into patterns for names.
func parseGlob(glob string) ([]string, error) {
	patterns := strings.Split(path.Clean(filepath.ToSlash(glob)), "/")
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, err
		}
	}
	if len(patterns) == 1 {
		patterns = []string{"**", patterns[0]}
	}
	return patterns, nil
}

// An exclusion is a glob, and its patterns name by name.
type exclusion struct {
	glob     string
	patterns []string
}

func (s *search) excluded(dir string) (excluded bool) {
	names := strings.Split(filepath.ToSlash(dir), "/")
	for _, x := range s.exclude {
		if !globMatch(x.patterns, names) {
			continue
		}
		if excluded = true; s.opts.Excluded != nil {
			s.opts.Excluded(x.glob)
		}
	}
	return excluded
}

// globMatch reports whether names match pattern, name by name.
func globMatch(pattern, names []string) bool {
	switch {
	case len(pattern) == 0:
		return len(names) == 0
	case pattern[0] == "**":
		return globMatch(pattern[1:], names) || len(names) > 0 && globMatch(pattern, names[1:])
	case len(names) == 0:
		return false
	}
	ok, err := path.Match(pattern[0], names[0])
	return ok && err == nil && globMatch(pattern[1:], names[1:])
}

// consider makes a directory a candidate if it has files that a search reads. It reports whether it, or a directory
// above, is configured.
func (s *search) consider(at spotted, entries []os.DirEntry) (configured bool) {
	names, tests := namesOf(entries), s.opts.Cache.testNames(at.path)
	c := &candidate{dir: at.dir, path: at.path, outside: at.outside, engines: s.enginesFor(names, tests, configExtensions)}
	if len(c.engines) == 0 && !at.configured {
		c.engines = s.enginesFor(slices.Concat(names, tests), nil, testExtensions)
		c.testsAlone = len(c.engines) > 0
	}
	c.configured = len(c.engines) > 0
	for _, e := range entries {
		switch {
		case e.Name() == sources.LockFile:
			c.locked = c.locked || c.configured || !slices.ContainsFunc(names, excludesUnits)
		case e.Name() == stateFile || e.Name() == stateFile+".d":
			c.locked = c.locked || c.configured
		case terragruntFile(e.Name()):
			c.unit = true
		}
	}
	if c.configured || c.locked || c.unit {
		c.calls, c.rootCalls = map[sources.Engine][]string{}, map[sources.Engine][]string{}
		c.reached = map[sources.Engine]bool{}
		s.found, s.at[c.path] = append(s.found, c), c
	}
	return at.configured || c.configured
}

// enginesFor returns the engines of the search that read one of names with the extensions. Where both
// read the same of these and of tests, it returns one of them.
func (s *search) enginesFor(names, tests, extensions []string) []sources.Engine {
	engines := bothEngines
	if s.opts.Engine != "" {
		engines = []sources.Engine{s.opts.Engine}
	}
	engines = slices.DeleteFunc(slices.Clone(engines), func(e sources.Engine) bool {
		return len(engineNames(names, extensions, e)) == 0
	})
	if len(engines) > 1 && !slices.ContainsFunc(slices.Concat(names, tests), onlyTofu) {
		engines = engines[:1]
	}
	return engines
}

// readAll reads the candidates, as many concurrently as there are processors.
func (s *search) readAll(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, c := range s.found {
		group.Go(func() error {
			if ctx.Err() == nil {
				s.read(c)
			}
			return nil
		})
	}
	_ = group.Wait()
}

// read records for which engines a candidate is read, what it calls, and whether it has what only root modules have.
func (s *search) read(c *candidate) {
	c.chosen, c.assumed = s.enginesOf(c)
	if c.unit {
		c.sources = s.terragrunt.sources(c.path)
	}
	for _, e := range c.engines {
		root := part{path: c.path, engine: e}
		module := s.opts.Cache.read(root)
		root.tests = defaultTests
		c.rootOnly = c.rootOnly || module.backend != nil || len(module.imports) > 0
		if slices.ContainsFunc(module.calls, func(call moduleCall) bool { return call.computed }) {
			s.computed.Store(true)
		}
		c.calls[e] = s.localSources(c.path, module.calls)
		c.rootCalls[e] = s.localSources(c.path, s.opts.Cache.read(root).calls)
	}
}

// follow adds the modules to which computed sources lead if a candidate is a root module, with the values that are
// known here. A module that other values select is not called, so it may hide nothing.
func (s *search) follow(ctx context.Context) {
	for _, c := range s.found {
		for _, e := range c.engines {
			opts := Options{Engine: e, DataDir: s.opts.DataDir, Inputs: s.opts.Inputs, Cache: s.opts.Cache}
			w := newWalk(c.path, opts.withDefaults())
			top := call{dir: "."}
			w.calls(ctx, w.module(top).calls, top)
			for _, dir := range slices.Sorted(maps.Keys(w.read)) {
				if path := pathIn(w.root, dir); path != c.path {
					c.rootCalls[e] = append(c.rootCalls[e], path)
				}
			}
		}
	}
}

// localSources returns the directories that calls in the directory at path name, without symlinks. Where computed calls
// lead depends on the root module.
func (s *search) localSources(path string, calls []moduleCall) (dirs []string) {
	for _, call := range calls {
		if isLocal(call.source) && !call.computed {
			dirs = append(dirs, s.opts.Cache.Reals.Of(filepath.Join(path, filepath.FromSlash(call.source))))
		}
	}
	return dirs
}

// enginesOf returns the engines for which c is read if it is a root module, and whether nothing has decided between
// them.
func (s *search) enginesOf(c *candidate) (engines []sources.Engine, assumed bool) {
	e := s.opts.Engine
	if e == "" && s.opts.EngineOf != nil {
		e, assumed = s.opts.EngineOf(filepath.Join(s.dir, c.dir))
	}
	if e == "" {
		return bothEngines, true
	}
	return []sources.Engine{e}, assumed
}
