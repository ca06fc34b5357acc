package modules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/larder-cli/larder/sources"
)

// RootsOptions configure [Roots]. The zero RootsOptions are ready to use.
type RootsOptions struct {
	Engine  sources.Engine // whose files are read; if empty, those of both, each with its own
	DataDir string         // absolute or relative to each root module; ".terraform" if empty

	// Exclude are globs of directories to skip, with / between names and ** for any
	// number of names. A glob without / matches names at any depth.
	Exclude []string

	// EngineOf returns the engine for which a root module is read, if Engine is empty. It returns
	// "" for both engines, as a nil EngineOf does.
	EngineOf func(dir string) sources.Engine

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
// directory with configuration files is one unless another root module reaches it: by
// its calls, the calls of its tests, or as the source of a unit of Terragrunt. A call whose source
// has variables reaches each directory to which other values of them could lead. If
// directories call each other and nothing else reaches them, the first one is a root
// module. A directory that configures a backend is one too, unless it is the source of
// a unit, which sets the backend. So every configuration is read with a root module.
// A directory with tests alone is one if Terraform reads it as such, and if no directory
// above it has configuration, which these tests may be for. Stacks are none.
// Hidden directories, data directories and symlinks to directories are skipped, except
// .terragrunt-stack, where Terragrunt keeps the units of a stack.
//
// The error joins the errors of invalid globs, which match [path.ErrBadPattern], or
// of directories that could not be read; the other directories are searched. An
// invalid configuration is not an error here: Load reports it.
func Roots(ctx context.Context, dir string, opts RootsOptions) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	opts.Cache = cmp.Or(opts.Cache, new(Cache))
	if opts.TestsAlone == nil {
		opts.TestsAlone = always
	}
	s := &search{dir: dir, opts: opts, at: map[string]*candidate{}}
	s.terragrunt = terragrunt{top: realPath(dir), files: &opts.Cache.terragrunt}
	for _, glob := range opts.Exclude {
		pattern, err := parseGlob(glob)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", glob, err)
		}
		s.exclude = append(s.exclude, pattern)
	}
	s.look(ctx, ".", false)
	s.readAll(ctx)
	if s.computed.Load() {
		s.follow(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.roots(), errors.Join(s.errs...)
}

// A search is a search for root modules.
type search struct {
	dir     string
	opts    RootsOptions
	exclude [][]string // patterns by name
	found   []*candidate
	at      map[string]*candidate // by their path
	errs    []error

	terragrunt terragrunt

	computed atomic.Bool // the source of a module is not constant
}

// A candidate is a directory with configuration files, a lock file, or files of
// Terragrunt.
type candidate struct {
	dir        string           // relative
	path       string           // absolute, without symlinks
	engines    []sources.Engine // that have configuration files here
	chosen     []sources.Engine // for which it is read if it is a root module
	configured bool             // has configuration files, or tests alone
	testsAlone bool
	locked     bool // has a lock file, and configuration files for the engine or none at all
	backend    bool
	units      []string // names of Terragrunt's files

	// The directories that its modules, tests and units name, absolute and without symlinks. Engines
	// read only the tests and units of a root module.
	calls, tests map[sources.Engine][]string
	sources      []string // of its units

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
		func(c *candidate) bool { return c.backend && !c.run },
		func(c *candidate) bool { return c.configured && !c.covered() },
	} {
		for _, c := range callersFirst {
			if !c.root && is(c) {
				s.choose(c)
			}
		}
	}
	var dirs []string
	for _, c := range s.found {
		if c.root && (!c.testsAlone || c.locked || c.serves(sources.Terraform) && s.opts.TestsAlone()) {
			dirs = append(dirs, c.dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// serves reports whether c is read for an engine that has files here.
func (c *candidate) serves(e sources.Engine) bool {
	return slices.Contains(c.engines, e) && slices.Contains(c.chosen, e)
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
				visit(c.tests[e])
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

// covered reports whether root modules reach c for its own engine, or for the other one if only that has
// files here.
func (c *candidate) covered() bool {
	var views []sources.Engine
	for _, e := range c.chosen {
		if view := c.view(e); view != "" {
			views = append(views, view)
		}
	}
	if views == nil {
		views = c.engines
	}
	return !slices.ContainsFunc(views, func(view sources.Engine) bool {
		return !slices.ContainsFunc(bothEngines, func(e sources.Engine) bool { return c.reached[e] && c.view(e) == view })
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
		view := c.view(e)
		s.reach(slices.Concat(c.calls[view], c.tests[view], c.sources), e)
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

// look searches the relative path dir and the directories below it. Configured reports whether a directory above has
// configuration.
func (s *search) look(ctx context.Context, dir string, configured bool) {
	if ctx.Err() != nil {
		return
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, dir))
	if err != nil {
		err = fmt.Errorf("looking for root modules: %w", err)
		s.errs = append(s.errs, sources.WithHint(err, "make the directory readable, or skip it with --exclude"))
		return
	}
	configured = s.consider(dir, entries, configured)
	for _, entry := range entries {
		below := filepath.Join(dir, entry.Name())
		hidden := strings.HasPrefix(entry.Name(), ".") && entry.Name() != stackDir
		if entry.IsDir() && !hidden && !s.isDataDir(below) && !s.excluded(below) {
			s.look(ctx, below, configured)
		}
	}
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

func (s *search) excluded(dir string) bool {
	names := strings.Split(filepath.ToSlash(dir), "/")
	return slices.ContainsFunc(s.exclude, func(pattern []string) bool { return globMatch(pattern, names) })
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

// consider makes dir a candidate if it has files that a search reads. It reports whether it, or a directory above, is
// configured.
func (s *search) consider(dir string, entries []os.DirEntry, configured bool) bool {
	names, tests := namesOf(entries), s.testsBelow(dir, entries)
	c := &candidate{dir: dir, engines: s.enginesFor(names, tests, configExtensions)}
	if len(c.engines) == 0 && !configured {
		c.engines = s.enginesFor(slices.Concat(names, tests), nil, testExtensions)
		c.testsAlone = len(c.engines) > 0
	}
	c.configured = len(c.engines) > 0
	for _, e := range entries {
		switch {
		case e.Name() == sources.LockFile:
			c.locked = c.configured || !slices.ContainsFunc(names, excludesUnits)
		case terragruntFile(e.Name()):
			c.units = append(c.units, e.Name())
		}
	}
	if c.configured || c.locked || c.units != nil {
		c.path = filepath.Join(s.terragrunt.top, dir) // the search follows no links
		c.calls, c.tests, c.reached = map[sources.Engine][]string{}, map[sources.Engine][]string{}, map[sources.Engine]bool{}
		s.found, s.at[c.path] = append(s.found, c), c
	}
	return configured || c.configured
}

// testsBelow returns the test files in the directory for tests, if entries have it.
func (s *search) testsBelow(dir string, entries []os.DirEntry) []string {
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == defaultTests }) {
		return nil
	}
	names, _ := configNames(filepath.Join(s.dir, dir, defaultTests))
	return names
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
	var wg sync.WaitGroup
	next := make(chan *candidate)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for c := range next {
				s.read(c)
			}
		})
	}
	for _, c := range s.found {
		if ctx.Err() == nil {
			next <- c
		}
	}
	close(next)
	wg.Wait()
}

// read records for which engines a candidate is read, what it calls, and whether it has a backend.
func (s *search) read(c *candidate) {
	c.chosen = s.enginesOf(c)
	for _, name := range c.units {
		c.sources = append(c.sources, s.terragrunt.unit(filepath.Join(c.path, name), c.path)...)
	}
	for _, e := range c.engines {
		root := part{path: c.path, engine: e}
		module := s.opts.Cache.read(root)
		root.tests = defaultTests
		c.backend = c.backend || module.backend != nil
		if slices.ContainsFunc(module.calls, func(call moduleCall) bool { return call.computed }) {
			s.computed.Store(true)
		}
		c.calls[e], c.tests[e] = localSources(c.path, module.calls), localSources(c.path, s.opts.Cache.read(root).calls)
	}
}

// follow adds the modules to which computed sources lead with the values that are known here. A module that other values
// select is not called, so it may hide nothing.
func (s *search) follow(ctx context.Context) {
	for _, c := range s.found {
		for _, e := range c.engines {
			w := newWalk(c.path, Options{Engine: e, DataDir: s.opts.DataDir, Inputs: s.opts.Inputs, Cache: s.opts.Cache}.withDefaults())
			top := call{dir: "."}
			w.calls(ctx, w.module(top).calls, top)
			for _, dir := range slices.Sorted(maps.Keys(w.read)) {
				c.calls[e] = append(c.calls[e], pathIn(w.root, dir))
			}
			c.calls[e] = slices.DeleteFunc(c.calls[e], func(dir string) bool { return dir == c.path })
		}
	}
}

// localSources returns the directories that calls in the directory at path name, without symlinks.
func localSources(path string, calls []moduleCall) (dirs []string) {
	for _, call := range calls {
		if isLocal(call.source) {
			dirs = append(dirs, realPath(filepath.Join(path, filepath.FromSlash(call.source))))
		}
	}
	return dirs
}

// enginesOf returns the engines for which c is read if it is a root module.
func (s *search) enginesOf(c *candidate) []sources.Engine {
	e := s.opts.Engine
	if e == "" && s.opts.EngineOf != nil {
		e = s.opts.EngineOf(filepath.Join(s.dir, c.dir))
	}
	if e == "" {
		return bothEngines
	}
	return []sources.Engine{e}
}
