package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/modules"
)

// rootsAtOnce limits how many root modules are processed concurrently, and so the memory for
// configurations and states.
const rootsAtOnce = 8

// forEachRoot calls do for 0 to n-1, some of them concurrently, and returns when all calls have
// returned.
func forEachRoot(n int, do func(i int)) {
	slots := make(chan struct{}, rootsAtOnce)
	var group sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	group.Wait()
}

// A modulesError lists the root modules that failed. Their own errors were printed before.
type modulesError struct {
	failed []string
	of     int
}

// Error names the root modules that failed.
func (e *modulesError) Error() string {
	return fmt.Sprintf("%d of %d root modules failed: %s", len(e.failed), e.of, ui.Some(e.failed, 5))
}

// Work is what a command does for a root module. It returns a function that shows the results,
// because root modules are processed concurrently and shown in order.
type work func(ctx context.Context, dir string, out *ui.Output) (show func(), err error)

// An attempt is the result for one root module.
type attempt struct {
	show func()
	err  error
}

// each processes the root modules of [session.rootDirs]. If there can be several, a failure
// does not stop the others.
func (s *session) each(ctx context.Context, at work) error {
	dirs, searchErr := s.rootDirs(ctx)
	if !s.flags.recursive && len(dirs) == 1 {
		show, err := at(ctx, dirs[0], s.out)
		show()
		return err
	}
	failures := &modulesError{of: len(dirs)}
	s.out.Together(func() { failures.failed = s.workAt(ctx, dirs, at) })
	if len(failures.failed) > 0 {
		return errors.Join(searchErr, failures)
	}
	return searchErr
}

// workAt processes root modules and returns those that failed.
func (s *session) workAt(ctx context.Context, dirs []string, at work) (failed []string) {
	outs, attempts := make([]*ui.Output, len(dirs)), make([]chan attempt, len(dirs))
	for i, dir := range dirs {
		outs[i], attempts[i] = s.out.ForModule(s.shown(dir), s.machine.WorkDir), make(chan attempt, 1)
	}
	go forEachRoot(len(dirs), func(i int) {
		show, err := at(ctx, dirs[i], outs[i])
		attempts[i] <- attempt{show, err}
	})
	for i, dir := range dirs { // results are shown in the same order each time
		done := <-attempts[i]
		done.show()
		if done.err != nil {
			failed = append(failed, s.shown(dir))
		}
		if ctx.Err() == nil {
			outs[i].Fail(ctx, done.err)
		}
	}
	return failed
}

// find returns the root modules in dir and below, except those that --exclude excludes. Dir is
// absolute, and so are their paths.
func (s *session) find(ctx context.Context, dir string) ([]string, error) {
	s.searched = append(s.searched, dir)
	here, err := s.root(ctx, dir, s.out)
	if err != nil {
		return nil, err
	}
	dataDir := here.config.DataDir
	if here.config.At(filepath.Join(dir, "elsewhere")).DataDir != dataDir { // each root module has its own data directory
		if dataDir, err = filepath.Rel(dir, dataDir); err != nil {
			return nil, err
		}
	}
	opts := modules.RootsOptions{Engine: s.requested.engine, DataDir: dataDir, Exclude: s.flags.exclude, Cache: &s.modules}
	dirs, err := modules.Roots(ctx, dir, opts)
	for i := range dirs {
		dirs[i] = filepath.Join(dir, dirs[i])
	}
	if errors.Is(err, path.ErrBadPattern) {
		err = usageError{fmt.Errorf("--exclude: %w", err)}
	}
	return dirs, err
}
