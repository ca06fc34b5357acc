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

// rootsAtOnce bounds the root modules that are worked at, and with them the
// memory that configurations and states take.
const rootsAtOnce = 8

// forEachRoot calls do for 0 to n-1, for some of them at once, and returns when all
// calls have.
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

// A modulesError says which of several root modules failed. Their own errors have been
// written before.
type modulesError struct {
	failed []string
	of     int
}

// Error names the root modules that failed.
func (e *modulesError) Error() string {
	return fmt.Sprintf("%d of %d root modules failed: %s", len(e.failed), e.of, ui.Some(e.failed, 5))
}

// Work is what a command does at a root module. It returns what shows the
// results, as several root modules are worked at and shown in order.
type work func(ctx context.Context, dir string, out *ui.Output) (show func(), err error)

// An attempt is what came of one root module.
type attempt struct {
	show func()
	err  error
}

// each works at the root modules of [session.rootDirs]. If there can be several, one that
// fails stops no other.
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

// workAt works at root modules, and returns those that failed.
func (s *session) workAt(ctx context.Context, dirs []string, at work) (failed []string) {
	outs, attempts := make([]*ui.Output, len(dirs)), make([]chan attempt, len(dirs))
	for i, dir := range dirs {
		outs[i], attempts[i] = s.out.ForModule(s.shown(dir), s.machine.WorkDir), make(chan attempt, 1)
	}
	go forEachRoot(len(dirs), func(i int) {
		show, err := at(ctx, dirs[i], outs[i])
		attempts[i] <- attempt{show, err}
	})
	for i, dir := range dirs { // results come in the same order each time
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

// find finds the root modules in dir and below that --exclude does not exclude, as
// paths relative to dir.
func (s *session) find(ctx context.Context, dir string) ([]string, error) {
	here, err := s.root(ctx, dir, s.out)
	if err != nil {
		return nil, err
	}
	dataDir := here.config.DataDir
	if here.config.At(filepath.Join(dir, "elsewhere")).DataDir != dataDir { // each root module has its own
		if dataDir, err = filepath.Rel(dir, dataDir); err != nil {
			return nil, err
		}
	}
	opts := modules.RootsOptions{DataDir: dataDir, Exclude: s.flags.exclude, Cache: &s.modules}
	if s.engine != anyEngine {
		opts.Engine = s.engine
	}
	dirs, err := modules.Roots(ctx, dir, opts)
	if errors.Is(err, path.ErrBadPattern) {
		err = usageError{fmt.Errorf("--exclude: %w", err)}
	}
	return dirs, err
}
