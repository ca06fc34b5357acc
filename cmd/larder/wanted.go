package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// A wanted is what the arguments and flags of a command ask for.
type wanted struct {
	*session
	addresses []string // as typed
	paths     []string // as typed
	versions  installer.SelectOptions
}

// readWanted reads the flags of wantedFlags that may be wrong by themselves.
func readWanted(c *cli.Context) (w *wanted, err error) {
	w = &wanted{paths: c.StringSlice("from")}
	if err := exclusive(c, "newest", "all-versions"); err != nil {
		return nil, err
	}
	w.versions.All = c.Bool("all-versions")
	w.versions.Newest, err = positive(c, "newest")
	return w, err
}

// take takes the arguments: addresses of providers, and paths that --from could name too.
// Without any it is about the root module in the working directory.
func (w *wanted) take(args []string) error {
	paths, addresses, err := w.separate(args)
	if err != nil {
		return err
	}
	w.paths, w.addresses = append(w.paths, paths...), addresses
	if len(w.addresses)+len(w.paths) == 0 {
		w.paths = []string{"."}
	}
	if w.flags.recursive && len(w.paths) == 0 {
		err := errors.New("--recursive needs a directory where providers are named")
		return usageError{sources.WithHint(err, "add . for root modules here and below")}
	}
	return nil
}

// A supply is what wants are met from that are configured alike.
type supply struct {
	*rootModule // any of those that want
	wants       []installer.Want
}

// An input is something that says what is wanted: a root module, a file, or the
// command line.
type input func(context.Context) (*rootModule, []installer.Want, error)

// read finds out what is wanted. Inputs fail one by one: the error joins what is
// wrong with each, and the others count.
func (w *wanted) read(ctx context.Context) ([]*supply, error) {
	inputs, searchErr := w.inputs(ctx)
	read, errs := make([]*supply, len(inputs)), make([]error, len(inputs))
	var mu sync.Mutex
	var all supplies
	next := 0 // to be added, so that the order is that of the inputs
	forEachRoot(len(inputs), func(i int) {
		m, wants, err := inputs[i](ctx)
		mu.Lock()
		defer mu.Unlock()
		read[i], errs[i] = &supply{m, wants}, err
		for ; next < len(read) && read[next] != nil; next++ {
			all.add(read[next])
			read[next] = nil // thousands of root modules and their lock files take much memory
		}
	})
	return all.different, errors.Join(append([]error{searchErr}, errs...)...)
}

// supplies are those that differ from one another.
type supplies struct {
	different []*supply
	known     map[string]*supply
}

// add adds a supply to the one that it is like. A supply without wants is left
// out.
func (all *supplies) add(s *supply) {
	if len(s.wants) == 0 {
		return
	}
	if all.known == nil {
		all.known = map[string]*supply{}
	}
	key := s.suppliedBy()
	if first := all.known[key]; first != nil {
		first.wants = append(first.wants, s.wants...)
		return
	}
	all.known[key] = s
	all.different = append(all.different, s)
}

// suppliedBy is the same text for root modules that get the same packages from
// the same places.
func (m *rootModule) suppliedBy() string {
	key := []string{string(m.config.Engine), m.cacheRoot()}
	if m.config.Implied {
		key = append(key, m.config.ImpliedDirs()...)
	}
	for _, method := range m.config.Methods {
		key = append(key, method.Path) // all else is the same for all root modules
	}
	return strings.Join(key, "\x00")
}

// inputs are the command line and what --from names.
func (w *wanted) inputs(ctx context.Context) ([]input, error) {
	var inputs []input
	if len(w.addresses) > 0 {
		inputs = append(inputs, w.arguments)
	}
	var errs []error
	for _, path := range w.paths {
		found, err := w.from(ctx, path)
		inputs, errs = append(inputs, found...), append(errs, err)
	}
	return inputs, errors.Join(errs...)
}

// from are the inputs that are meant by a path.
func (w *wanted) from(ctx context.Context, typed string) ([]input, error) {
	path := absolute(w.dir, typed)
	info, err := os.Stat(path)
	switch name := filepath.Base(path); {
	case err != nil:
		return nil, err
	case info.IsDir() && w.flags.recursive:
		return w.below(ctx, path)
	case info.IsDir() && onlyLocked(path) && !w.flags.noLockFile:
		return []input{w.lockFile(filepath.Join(path, lockfile.Name))}, nil
	case info.IsDir():
		return []input{w.module(path, w.out)}, nil
	case strings.HasSuffix(name, ".lock.hcl") && w.flags.noLockFile:
		return nil, usageError{fmt.Errorf("%s is a lock file, which --no-lock-file ignores", typed)}
	case strings.HasSuffix(name, ".lock.hcl"):
		return []input{w.lockFile(path)}, nil
	case modules.IsConfiguration(name):
		return []input{w.list(path)}, nil
	}
	return nil, sources.WithHint(fmt.Errorf("%s is neither a directory nor a file that lists providers", path),
		"name a root module, a dependency lock file whose name ends in .lock.hcl, or a .tf file with required_providers")
}

// onlyLocked reports whether there is a dependency lock file in dir, and no
// configuration that it is for.
func onlyLocked(dir string) bool {
	entries, err := os.ReadDir(dir)
	has := func(is func(name string) bool) bool {
		return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return is(e.Name()) })
	}
	return err == nil && !has(modules.IsConfiguration) && has(func(name string) bool { return name == lockfile.Name })
}

// below are the root modules in dir and below.
func (w *wanted) below(ctx context.Context, dir string) ([]input, error) {
	dirs, err := w.find(ctx, dir)
	if len(dirs) == 0 && err == nil {
		w.out.Say("there is no root module in %s or below: nothing to do", w.shown(dir))
	}
	var inputs []input
	for _, below := range dirs {
		inputs = append(inputs, w.module(filepath.Join(dir, below), w.out.ForModule(w.shown(filepath.Join(dir, below)), w.machine.WorkDir)))
	}
	return inputs, err
}

// arguments is the command line.
func (w *wanted) arguments(ctx context.Context) (*rootModule, []installer.Want, error) {
	m, err := w.root(ctx, w.dir, w.out)
	if err != nil {
		return nil, nil, err
	}
	var wants []installer.Want
	for _, address := range w.addresses {
		r, err := sources.ParseRequirement(address, m.config.Engine)
		if err != nil {
			return nil, nil, usageError{err}
		}
		wants = append(wants, installer.Want{Requirement: r})
	}
	return m, wants, nil
}

// module is the root module in dir: what is locked for it, or else what it
// requires. Warnings go to out.
func (w *wanted) module(dir string, out *ui.Output) input {
	return func(ctx context.Context) (*rootModule, []installer.Want, error) {
		m, err := w.root(ctx, dir, out)
		if err != nil {
			return nil, nil, err
		}
		root, err := m.needs(ctx)
		if err != nil && m.lock == nil {
			err = sources.WithHint(err, "to choose the newest versions without the lock file, run again with --no-lock-file")
		}
		if err != nil || root == nil {
			return m, nil, err
		}
		var wants []installer.Want
		for _, r := range root.Requirements {
			want := installer.Want{Requirement: r, Modules: out.Modules()}
			if !w.flags.upgrade {
				want.Locked = m.lockedEntry(r.Provider)
			}
			wants = append(wants, want)
		}
		return m, wants, nil
	}
}

// lockedEntry is what the lock file has for a provider. It warns if that is nothing, and
// others are locked: then what is chosen now need not be what init chooses later.
func (m *rootModule) lockedEntry(p sources.Provider) lockfile.Entry {
	e, ok := m.lock.Entry(p)
	if !ok && len(m.lock.Entries()) > 0 {
		m.out.Warn("%s: the dependency lock file does not lock %s; taking the newest version that matches (larder lock adds it)", m.full(lockfile.Name), p)
	}
	return e
}

// lockFile is the dependency lock file at path, all of it.
func (w *wanted) lockFile(path string) input {
	return func(ctx context.Context) (*rootModule, []installer.Want, error) {
		m, err := w.rootLocked(ctx, path, w.out)
		if err == nil {
			err = w.out.Warnings(m.lockProblems)
		}
		if err != nil {
			return nil, nil, err
		}
		var wants []installer.Want
		for _, e := range m.lock.Entries() {
			if m.overridden(e.Provider) {
				continue
			}
			r := sources.Requirement{Provider: e.Provider, From: []sources.Origin{{File: path}}}
			wants = append(wants, installer.Want{Requirement: r, Locked: e})
		}
		return m, wants, nil
	}
}

// list is the configuration file at path, as a list of providers.
func (w *wanted) list(path string) input {
	return func(ctx context.Context) (*rootModule, []installer.Want, error) {
		m, err := w.root(ctx, filepath.Dir(path), w.out)
		if err != nil {
			return nil, nil, err
		}
		required, ds := modules.ReadList(path, m.config.Engine)
		var wants []installer.Want
		for _, r := range required {
			wants = append(wants, installer.Want{Requirement: r})
		}
		return m, wants, w.out.Warnings(ds)
	}
}
