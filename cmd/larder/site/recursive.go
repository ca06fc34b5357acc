package site

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"golang.org/x/sync/errgroup"
)

// RootsAtOnce limits how many root modules are processed concurrently, and so the memory for
// configurations and states.
const RootsAtOnce = 8

// ForEach calls do for 0 to n-1, up to limit of them concurrently, and returns when all calls have
// returned.
func ForEach(n, limit int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(limit)
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
}

// A work is what a command does for a root module. It returns a function that shows the results,
// because root modules are processed concurrently and shown in order.
type work func(ctx context.Context, dir string, out *report.Output) (show func(), err error)

// An attempt is the result for one root module.
type attempt struct {
	show func()
	err  error
}

// Each processes the root modules of [Site.RootDirs]. If there can be several, a failure
// does not stop the others.
func (s *Site) Each(ctx context.Context, at work) error {
	dirs, searchErr := s.RootDirs(ctx)
	if !s.Flags.Recursive && len(dirs) == 1 {
		show, err := at(ctx, dirs[0], s.Output)
		show()
		return err
	}
	told := &report.ToldError{Of: len(dirs)}
	s.Output.Together(func() { told.Failed = s.workAt(ctx, dirs, at) })
	if told.Failed > 0 {
		return errors.Join(searchErr, told)
	}
	return searchErr
}

// workAt processes root modules and returns how many failed.
func (s *Site) workAt(ctx context.Context, dirs []string, at work) (failed int) {
	outs, attempts := make([]*report.Output, len(dirs)), make([]chan attempt, len(dirs))
	for i, dir := range dirs {
		outs[i], attempts[i] = s.Output.ForModule(s.Shown(dir), s.Machine.WorkDir), make(chan attempt, 1)
	}
	go ForEach(len(dirs), RootsAtOnce, func(i int) {
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

// RootDirs returns the directories of the root modules of the command: the arguments, or the
// working directory. With --recursive, it returns all root modules in these and below.
func (s *Site) RootDirs(ctx context.Context) ([]string, error) {
	named := s.Roots
	if len(named) == 0 {
		named = []string{"."}
	}
	var all []string
	var errs []error
	for _, typed := range named {
		dirs, err := s.RootsToRead(ctx, Absolute(s.WorkDir, typed))
		errs, all = append(errs, err), append(all, dirs...)
	}
	return report.Unique(all), errors.Join(errs...)
}

// RootsToRead is [Site.RootsAt] for a command that uses the configuration of these root modules. It makes
// their engines known to the output.
func (s *Site) RootsToRead(ctx context.Context, dir string) ([]string, error) {
	dirs, err := s.RootsAt(ctx, dir)
	if len(dirs) == 0 && err == nil && !s.Reading.Empty { // a wrong directory must not look like success
		text, hint := "there is no root module in "+s.Shown(dir)+" or below", "name a directory that contains root modules"
		if globs := s.globs(true); len(globs) > 0 {
			text, hint = text+", except where --exclude skips it: "+strings.Join(globs, ", "), "exclude fewer directories"
		}
		err = sources.WithHint(fmt.Errorf("nothing to do here: %s", text), "%s", hint)
	}
	for _, dir := range dirs {
		s.NoteEngine(ctx, filepath.Join(dir, lockfile.Name))
	}
	return dirs, err
}

// RootsAt returns the root modules of an argument that is a directory: itself, or with --recursive
// those in it and below, except those that --exclude excludes. Dir is absolute, and so are their paths.
func (s *Site) RootsAt(ctx context.Context, dir string) ([]string, error) {
	if !s.Flags.Recursive {
		return []string{filepath.Clean(dir)}, nil
	}
	s.searched = append(s.searched, dir)
	here, err := s.Root(ctx, dir, s.Output)
	if err != nil {
		return nil, err
	}
	dataDir := here.Config.DataDir
	if here.Config.At(filepath.Join(dir, "elsewhere")).DataDir != dataDir { // each root module has its own data directory
		if dataDir, err = filepath.Rel(dir, dataDir); err != nil {
			return nil, err
		}
	}
	opts := modules.RootsOptions{
		Engine: s.Requested.Engine, DataDir: dataDir, Inputs: s.inputs(), Cache: &s.Modules,
		Exclude: s.Flags.Exclude, Excluded: func(glob string) { s.excluding.Store(glob, true) },
		TestsAlone: func() bool { return here.readsTestsAlone(ctx) },
	}
	if !s.Both {
		opts.EngineOf = func(dir string) (sources.Engine, bool) {
			c := s.engineAt(ctx, filepath.Join(dir, lockfile.Name))
			return c.Engine, c.Assumed
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

// globs returns those of --exclude, quoted, that have or haven't skipped a directory.
func (s *Site) globs(useful bool) (all []string) {
	for _, glob := range s.Flags.Exclude {
		if _, skips := s.excluding.Load(glob); skips == useful {
			all = append(all, ShellQuoted(glob))
		}
	}
	return all
}

// warnUselessGlobs warns about globs of --exclude that have skipped nothing, which may be misspelled.
func (s *Site) warnUselessGlobs() {
	if len(s.searched) == 0 {
		return
	}
	for _, glob := range s.globs(false) {
		hint := "globs match paths below the directory that is searched, or the name of a directory at any depth"
		switch near := nearestDir(s.searched[0], glob); {
		case strings.Contains(glob, ","):
			hint = "repeat --exclude for each glob"
		case filepath.IsAbs(glob) || strings.HasPrefix(glob, ".."):
			hint = "globs are relative to the directory that is searched"
		case near != "":
			hint = "did you mean " + near + "?"
		}
		s.Output.WarnHint(hint, "--exclude %s skips no directory", glob)
	}
}

// OutFor returns the output of the root module in dir, which names it if it is one of several.
func (s *Site) OutFor(dir string, several bool) *report.Output {
	if !several {
		return s.Output
	}
	return s.Output.ForModule(s.Shown(dir), s.Machine.WorkDir)
}
