package work

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// rootsAtOnce limits how many root modules are processed concurrently, and so the memory for
// configurations and states.
const rootsAtOnce = 8

// forEachRoot calls do for 0 to n-1, some of them concurrently, and returns when all calls have
// returned.
func forEachRoot(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(rootsAtOnce)
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
}

// Work is what a command does for a root module. It returns a function that shows the results,
// because root modules are processed concurrently and shown in order.
type work func(ctx context.Context, dir string, out *report.Output) (show func(), err error)

// An attempt is the result for one root module.
type attempt struct {
	show func()
	err  error
}

// each processes the root modules of [session.rootDirs]. If there can be several, a failure
// does not stop the others.
func (s *Session) each(ctx context.Context, at work) error {
	dirs, searchErr := s.rootDirs(ctx)
	if !s.flags.Recursive && len(dirs) == 1 {
		show, err := at(ctx, dirs[0], s.output)
		show()
		return err
	}
	told := &report.ToldError{Of: len(dirs)}
	s.output.Together(func() { told.Failed = s.workAt(ctx, dirs, at) })
	if told.Failed > 0 {
		return errors.Join(searchErr, told)
	}
	return searchErr
}

// workAt processes root modules and returns how many failed.
func (s *Session) workAt(ctx context.Context, dirs []string, at work) (failed int) {
	outs, attempts := make([]*report.Output, len(dirs)), make([]chan attempt, len(dirs))
	for i, dir := range dirs {
		outs[i], attempts[i] = s.output.ForModule(s.shown(dir), s.machine.WorkDir), make(chan attempt, 1)
	}
	go forEachRoot(len(dirs), func(i int) {
		show, err := at(ctx, dirs[i], outs[i])
		attempts[i] <- attempt{show, err}
	})
	for i := range dirs { // results are shown in the same order each time
		done := <-attempts[i]
		done.show()
		if done.err != nil {
			failed++
		}
		if ctx.Err() == nil {
			outs[i].Fail(ctx, done.err)
		}
	}
	return failed
}

// rootDirs returns the directories of the root modules of the command: the arguments, or the
// working directory. With --recursive, it returns all root modules in these and below.
func (s *Session) rootDirs(ctx context.Context) ([]string, error) {
	named := s.roots
	if len(named) == 0 {
		named = []string{"."}
	}
	var all []string
	var errs []error
	for _, typed := range named {
		dirs, err := s.rootsToRead(ctx, Absolute(s.workDir, typed))
		errs = append(errs, err)
		for _, dir := range dirs {
			if !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all, errors.Join(errs...)
}

// rootsToRead is rootsAt for a command that uses the configuration of these root modules. It makes
// their engines known to the output.
func (s *Session) rootsToRead(ctx context.Context, dir string) ([]string, error) {
	dirs, err := s.rootsAt(ctx, dir)
	if len(dirs) == 0 && err == nil && !s.mayBeEmpty { // a wrong directory must not look like success
		err = sources.WithHint(fmt.Errorf("there is no root module in %s or below", s.shown(dir)), "name a directory that contains root modules")
	}
	for _, dir := range dirs {
		s.noteEngines(ctx, filepath.Join(dir, lockfile.Name))
	}
	return dirs, err
}

// rootsAt returns the root modules of an argument that is a directory: itself, or with --recursive
// those in it and below. Dir is absolute.
func (s *Session) rootsAt(ctx context.Context, dir string) ([]string, error) {
	if s.flags.Recursive {
		return s.find(ctx, dir)
	}
	return []string{filepath.Clean(dir)}, nil
}

// outFor returns the output of the root module in dir, which names it if it is one of several.
func (s *Session) outFor(dir string, several bool) *report.Output {
	if !several {
		return s.output
	}
	return s.output.ForModule(s.shown(dir), s.machine.WorkDir)
}

// inputs returns the values of variables: those on the engine's command line, or else those in the environment.
func (s *Session) inputs() modules.Inputs {
	flags := s.variables
	if flags == nil {
		flags = s.machine.Invocation([]string{string(sources.Terraform), "init"}).Variables
	}
	return modules.Inputs{Environ: s.machine.InputVariables(), Flags: flags}
}

// find returns the root modules in dir and below, except those that --exclude excludes. Dir is
// absolute, and so are their paths.
func (s *Session) find(ctx context.Context, dir string) ([]string, error) {
	s.searched = append(s.searched, dir)
	here, err := s.root(ctx, dir, s.output)
	if err != nil {
		return nil, err
	}
	dataDir := here.config.DataDir
	if here.config.At(filepath.Join(dir, "elsewhere")).DataDir != dataDir { // each root module has its own data directory
		if dataDir, err = filepath.Rel(dir, dataDir); err != nil {
			return nil, err
		}
	}
	opts := modules.RootsOptions{
		Engine: s.requested.engine, DataDir: dataDir, Exclude: s.flags.Exclude, Inputs: s.inputs(), Cache: &s.modules,
		TestsAlone: func() bool { return here.readsTestsAlone(ctx) },
	}
	if !s.both {
		opts.EngineOf = func(dir string) (sources.Engine, bool) {
			c := s.engineAt(ctx, filepath.Join(dir, lockfile.Name))
			return c.engine, c.assumed
		}
	}
	dirs, err := modules.Roots(ctx, dir, opts)
	for i := range dirs {
		dirs[i] = filepath.Join(dir, dirs[i])
	}
	if errors.Is(err, path.ErrBadPattern) {
		err = report.Usage(fmt.Errorf("--exclude: %w", err))
	}
	return dirs, err
}
