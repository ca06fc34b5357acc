package modules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
)

// RootsOptions configure [Roots]. The zero RootsOptions are ready to use.
type RootsOptions struct {
	Engine  sources.Engine // whose files are read; if empty, those of both, each with its own
	DataDir string         // absolute or relative to each root module; ".terraform" if empty

	// Exclude are globs of directories to skip, with / between names and ** for any
	// number of names. A glob without / matches names at any depth.
	Exclude []string

	Cache *Cache // to share with a later Load of the root modules; may be nil
}

// Roots returns the root modules in dir and below, as sorted paths relative to dir.
//
// A directory with a lock file is a root module, also without configuration files:
// Terragrunt keeps lock files beside its own files, and runs engines elsewhere. A
// directory with configuration files is one unless another directory that was found
// calls it as a module. A called directory is a root module too if it configures a
// backend, but not if a unit of Terragrunt is what calls it, which sets the backend.
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
	s := &search{dir: dir, opts: opts, called: map[string]bool{}, run: map[string]bool{}}
	s.terragrunt = terragrunt{realPath(dir), &opts.Cache.terragrunt}
	for _, glob := range opts.Exclude {
		pattern, err := parseGlob(glob)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", glob, err)
		}
		s.exclude = append(s.exclude, pattern)
	}
	s.look(ctx, ".")
	s.readAll(ctx)
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
	mu      sync.Mutex
	called  map[string]bool // directories of called modules, absolute and without symlinks
	run     map[string]bool // those that are sources of Terragrunt's units, likewise
	errs    []error

	terragrunt terragrunt
}

// A candidate is a directory with configuration files, a lock file, or files of
// Terragrunt.
type candidate struct {
	dir        string           // relative
	path       string           // absolute, without symlinks
	engines    []sources.Engine // that have configuration files here
	configured bool             // has configuration files
	locked     bool             // has a lock file, and configuration files for the engine or none at all
	backend    bool
	units      []string // names of Terragrunt's files
}

// roots returns the candidates that are root modules.
func (s *search) roots() []string {
	var dirs []string
	for _, c := range s.found {
		if c.locked || c.configured && !s.run[c.path] && (c.backend || !s.called[c.path]) {
			dirs = append(dirs, c.dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// look searches the relative path dir and the directories below it.
func (s *search) look(ctx context.Context, dir string) {
	if ctx.Err() != nil {
		return
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, dir))
	if err != nil {
		err = fmt.Errorf("looking for root modules: %w", err)
		s.errs = append(s.errs, sources.WithHint(err, "make the directory readable, or skip it with --exclude"))
		return
	}
	s.consider(dir, entries)
	for _, entry := range entries {
		below := filepath.Join(dir, entry.Name())
		hidden := strings.HasPrefix(entry.Name(), ".") && entry.Name() != stackDir
		if entry.IsDir() && !hidden && !s.isDataDir(below) && !s.excluded(below) {
			s.look(ctx, below)
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

// consider makes dir a candidate if it has files that a search reads.
func (s *search) consider(dir string, entries []os.DirEntry) {
	names := namesOf(entries)
	c := &candidate{dir: dir, engines: s.enginesFor(names, s.testsBelow(dir, entries))}
	c.configured = len(c.engines) > 0
	for _, e := range entries {
		switch {
		case e.Name() == sources.LockFile:
			c.locked = c.configured || !slices.ContainsFunc(names, IsConfiguration)
		case terragruntFile(e.Name()):
			c.units = append(c.units, e.Name())
		}
	}
	if c.configured || c.locked || c.units != nil {
		c.path = realPath(filepath.Join(s.dir, dir))
		s.found = append(s.found, c)
	}
}

// testsBelow returns the test files in the directory for tests, if entries have it.
func (s *search) testsBelow(dir string, entries []os.DirEntry) []string {
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == defaultTests }) {
		return nil
	}
	names, _ := configNames(filepath.Join(s.dir, dir, defaultTests))
	return names
}

// enginesFor returns the engines of the search that have configuration among names. Where both
// read the same configuration and tests, it returns one of them.
func (s *search) enginesFor(names, tests []string) []sources.Engine {
	engines := []sources.Engine{s.opts.Engine}
	if s.opts.Engine == "" {
		engines = []sources.Engine{sources.Terraform, sources.OpenTofu}
	}
	engines = slices.DeleteFunc(engines, func(e sources.Engine) bool {
		return len(engineNames(names, configExtensions, e)) == 0
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

// read records which modules a candidate calls, and whether it has a backend.
func (s *search) read(c *candidate) {
	for _, name := range c.units {
		for _, source := range s.terragrunt.sources(c.path, name) {
			s.call(s.run, c, source)
		}
	}
	for _, e := range c.engines {
		root := part{path: c.path, engine: e}
		module := s.opts.Cache.read(root)
		root.tests = defaultTests
		c.backend = c.backend || module.backend != nil
		for _, call := range slices.Concat(module.calls, s.opts.Cache.read(root).calls) {
			if isLocal(call.source) {
				s.call(s.called, c, realPath(filepath.Join(c.path, filepath.FromSlash(call.source))))
			}
		}
	}
}

// call records a directory that a candidate calls. A call of itself doesn't count.
func (s *search) call(called map[string]bool, c *candidate, dir string) {
	if dir != c.path {
		s.mu.Lock()
		defer s.mu.Unlock()
		called[dir] = true
	}
}
