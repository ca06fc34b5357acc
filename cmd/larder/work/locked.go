package work

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A tree contains the requirements of one root module, or of all root modules in a directory
// and below. It reads only lock files, so it needs neither remote modules nor a network.
type tree struct {
	platforms []sources.Platform // sorted
	locked    []lockedProvider
	open      []openProvider // of root modules without a lock file
	modules   int            // root modules
}

// A lockedProvider is a provider with a version that a lock file selects.
type lockedProvider struct {
	lockfile.Entry
	module string // directory of the lock file
}

// An openProvider is a requirement of a root module that locks no version.
type openProvider struct {
	sources.Requirement
	module string // directory of the root module, as shown
}

// tree reads the lock files that the flags select.
func (s *Session) tree(ctx context.Context) (*tree, error) {
	platforms := slices.Clone(thisIfNone(s.flags.Platforms))
	slices.SortFunc(platforms, func(a, b sources.Platform) int { return strings.Compare(a.String(), b.String()) })
	t := &tree{platforms: platforms}
	dirs, err := s.rootDirs(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	several := s.flags.Recursive || len(dirs) > 1
	for _, dir := range dirs {
		errs = append(errs, s.addModule(ctx, t, dir, several))
	}
	return t, t.check(errors.Join(errs...))
}

// check returns err, or an error if there is no root module. A key or file for nothing would
// hide a wrong directory in a CI job.
func (t *tree) check(err error) error {
	if err != nil || t.modules > 0 {
		return err
	}
	return sources.WithHint(errors.New("there is no root module here"), "name root modules, or search for them with -R")
}

// addModule adds the requirements of the root module in dir, which may be one of several.
func (s *Session) addModule(ctx context.Context, t *tree, dir string, several bool) error {
	out := s.outFor(dir, several)
	m, err := s.root(ctx, dir, out)
	if err != nil {
		return err
	}
	if err := out.Warnings(m.lockProblems); err != nil {
		return err
	}
	if m.lock.Exists {
		t.modules++
		for _, e := range m.lock.Entries() {
			if !m.overridden(e.Provider) {
				t.locked = append(t.locked, lockedProvider{e, dir})
			}
		}
		return nil
	}
	needs := m.needs
	if several { // others may have requirements
		needs = m.needsIfAny
	}
	root, err := needs(ctx)
	if err != nil || root == nil {
		return err
	}
	t.modules++
	for _, r := range root.Requirements {
		t.open = append(t.open, openProvider{r, s.shown(dir)})
	}
	return nil
}
