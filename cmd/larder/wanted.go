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

// A wanted contains the packages that the arguments and flags of a command request.
type wanted struct {
	*session
	addresses []string // as typed
	paths     []string // as typed
	versions  installer.SelectOptions
}

// readWanted reads the flags of wantedFlags and checks each of them.
func readWanted(c *cli.Context) (w *wanted, err error) {
	w = &wanted{paths: c.StringSlice("from")}
	if err := exclusive(c, "newest", "all-versions"); err != nil {
		return nil, err
	}
	w.versions.All = c.Bool("all-versions")
	w.versions.Newest, err = positive(c, "newest", "--newest")
	return w, err
}

// take reads the arguments: addresses of providers, and paths as for --from. Without arguments,
// it selects the root module in the working directory.
func (w *wanted) take(args []string) error {
	paths, addresses, err := w.separate(args)
	if err != nil {
		return err
	}
	w.paths, w.addresses = append(w.paths, paths...), addresses
	w.roots = w.paths
	if len(w.addresses)+len(w.paths) == 0 {
		w.paths = []string{"."}
	}
	if w.flags.recursive && len(w.paths) == 0 {
		err := errors.New("--recursive needs a directory where providers are named")
		return usageError{sources.WithHint(err, "add . for root modules here and below")}
	}
	return nil
}

// A supply contains requests that are met from the same sources.
type supply struct {
	*rootModule // one of the root modules that make the requests
	wants       []installer.Want
}

// An input contains requests: a root module, a file, or the command line. It is read by the rules of
// an engine, or of the one that is chosen for it if the engine is empty.
type input func(context.Context, sources.Engine) (*rootModule, []installer.Want, error)

// read reads all inputs. An input that fails does not stop the others: the error joins all
// errors.
func (w *wanted) read(ctx context.Context) ([]*supply, error) {
	inputs, searchErr := w.inputs(ctx)
	each := w.eachEngine()
	read := make([]*supply, len(inputs)*len(each))
	errs := make([]error, len(read))
	var mu sync.Mutex
	var all supplies
	next := 0 // index of the next input to add, so that they are added in order
	forEachRoot(len(read), func(i int) {
		m, wants, err := inputs[i/len(each)](ctx, each[i%len(each)])
		mu.Lock()
		defer mu.Unlock()
		read[i], errs[i] = &supply{m, wants}, err
		for ; next < len(read) && read[next] != nil; next++ {
			all.add(read[next])
			read[next] = nil // free the memory: there may be thousands of root modules
		}
	})
	return all.different, errors.Join(append([]error{searchErr}, errs...)...)
}

// supplies returns the supplies with different sources.
type supplies struct {
	different []*supply
	known     map[string]*supply
}

// add merges a supply into the one with the same sources. It omits a supply without requests.
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

// suppliedBy returns a key that is the same for root modules with the same sources and stores.
func (m *rootModule) suppliedBy() string {
	key := []string{string(m.config.Engine), m.cacheRoot()}
	if m.config.Implied {
		key = append(key, m.config.ImpliedDirs()...)
	}
	for _, method := range m.config.Methods {
		key = append(key, method.Path) // the rest is the same for all root modules
	}
	return strings.Join(key, "\x00")
}

// inputs returns the command line and the inputs of --from.
func (w *wanted) inputs(ctx context.Context) ([]input, error) {
	var inputs []input
	if len(w.addresses) > 0 {
		w.noteEngines(ctx, filepath.Join(w.dir, lockfile.Name))
		inputs = append(inputs, w.arguments)
	}
	var errs []error
	for _, path := range w.paths {
		found, err := w.from(ctx, path)
		inputs, errs = append(inputs, found...), append(errs, err)
	}
	return inputs, errors.Join(errs...)
}

// from returns the inputs at a path.
func (w *wanted) from(ctx context.Context, typed string) ([]input, error) {
	path := absolute(w.dir, typed)
	info, err := os.Stat(path)
	switch name := filepath.Base(path); {
	case err != nil:
		return nil, err
	case info.IsDir() && w.flags.recursive:
		return w.below(ctx, path)
	case info.IsDir():
		w.noteEngines(ctx, filepath.Join(path, lockfile.Name))
		return []input{w.module(path, w.out)}, nil
	case strings.HasSuffix(name, ".lock.hcl") && w.flags.noLockFile:
		return nil, usageError{fmt.Errorf("%s is a lock file, which --no-lock-file ignores", typed)}
	case strings.HasSuffix(name, ".lock.hcl"):
		w.noteEngines(ctx, path)
		return []input{w.lockFile(path)}, nil
	case modules.IsConfiguration(name):
		w.noteEngines(ctx, filepath.Join(filepath.Dir(path), lockfile.Name))
		return []input{w.list(path)}, nil
	}
	return nil, sources.WithHint(fmt.Errorf("%s is neither a directory nor a file that lists providers", path),
		"name a root module, a dependency lock file whose name ends in .lock.hcl, or a .tf file with required_providers")
}

// below returns the root modules in dir and below.
func (w *wanted) below(ctx context.Context, dir string) ([]input, error) {
	dirs, err := w.find(ctx, dir)
	if len(dirs) == 0 && err == nil {
		w.out.Say("there is no root module in %s or below: nothing to do", w.shown(dir))
	}
	var inputs []input
	for _, below := range dirs {
		w.noteEngines(ctx, filepath.Join(below, lockfile.Name))
		inputs = append(inputs, w.module(below, w.out.ForModule(w.shown(below), w.machine.WorkDir)))
	}
	return inputs, err
}

// arguments returns the requests on the command line.
func (w *wanted) arguments(ctx context.Context, engine sources.Engine) (*rootModule, []installer.Want, error) {
	m, err := w.rootFor(ctx, engine, filepath.Join(w.dir, lockfile.Name), w.out)
	if err != nil {
		return nil, nil, err
	}
	var wants []installer.Want
	for _, address := range w.addresses {
		m.hintEngine(strings.Count(address, "/") < 2)
		r, err := sources.ParseRequirement(address, m.config.Engine)
		if err != nil {
			return nil, nil, usageError{err}
		}
		wants = append(wants, installer.Want{Requirement: r})
	}
	return m, wants, nil
}

// module returns the requests of the root module in dir: its locked versions, or else its
// requirements. It prints warnings to out.
func (w *wanted) module(dir string, out *ui.Output) input {
	return func(ctx context.Context, engine sources.Engine) (*rootModule, []installer.Want, error) {
		m, err := w.rootFor(ctx, engine, filepath.Join(dir, lockfile.Name), out)
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
		return m, w.lockedWants(m, root.Requirements), nil
	}
}

// lockedWants returns requests for the locked versions, or those that an upgrade chooses.
func (w *wanted) lockedWants(m *rootModule, required []sources.Requirement) []installer.Want {
	var wants []installer.Want
	for _, r := range required {
		want := installer.Want{Requirement: r, Modules: m.out.Modules()}
		if !w.flags.upgrade || r.Fixed() {
			want.Locked = m.lockedEntry(r.Provider)
		}
		wants = append(wants, want)
	}
	return wants
}

// lockedEntry returns the lock file's entry for a provider. It warns if only other providers are
// locked: then init may choose another version later.
func (m *rootModule) lockedEntry(p sources.Provider) lockfile.Entry {
	e, ok := m.lock.Entry(p)
	if !ok && len(m.lock.Entries()) > 0 {
		m.out.Warn("%s: the dependency lock file does not lock %s; taking the newest version that matches (larder lock adds it)", m.full(lockfile.Name), p)
	}
	return e
}

// lockFile returns all requests of the dependency lock file at path.
func (w *wanted) lockFile(path string) input {
	return func(ctx context.Context, engine sources.Engine) (*rootModule, []installer.Want, error) {
		m, err := w.rootFor(ctx, engine, path, w.out)
		if err == nil {
			err = w.out.Warnings(m.lockProblems)
		}
		if err != nil {
			return nil, nil, err
		}
		required := slices.DeleteFunc(m.recorded(path, nil), func(r sources.Requirement) bool { return m.overridden(r.Provider) })
		return m, w.lockedWants(m, required), nil
	}
}

// list returns the requests in the configuration file at path.
func (w *wanted) list(path string) input {
	return func(ctx context.Context, engine sources.Engine) (*rootModule, []installer.Want, error) {
		m, err := w.rootFor(ctx, engine, filepath.Join(filepath.Dir(path), lockfile.Name), w.out)
		if err != nil {
			return nil, nil, err
		}
		required, ds := modules.ReadList(path, m.config.Engine)
		var wants []installer.Want
		for _, r := range required {
			m.hintEngine(r.Provider.Host == m.config.Engine.DefaultHost())
			wants = append(wants, installer.Want{Requirement: r})
		}
		return m, wants, w.out.Warnings(ds)
	}
}
