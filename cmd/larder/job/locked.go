package job

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A Tree contains the requirements of one root module, or of all root modules in a directory
// and below. It reads only lock files, so it needs neither remote modules nor a network.
type Tree struct {
	Platforms []sources.Platform // sorted
	Locked    []LockedProvider
	Open      []openProvider // of root modules without a lock file
	modules   int            // root modules
}

// A LockedProvider is a provider with a version that a lock file selects.
type LockedProvider struct {
	lockfile.Entry
	Module string // directory of the lock file
}

// An openProvider is a requirement of a root module that locks no version.
type openProvider struct {
	sources.Requirement
	Module string // directory of the root module, as shown
}

// ReadLocked reads the lock files that the flags select.
func ReadLocked(ctx context.Context, s *site.Site) (*Tree, error) {
	platforms := slices.Clone(site.ThisIfNone(s.Flags.Platforms))
	slices.SortFunc(platforms, func(a, b sources.Platform) int { return strings.Compare(a.String(), b.String()) })
	t := &Tree{Platforms: platforms}
	dirs, err := s.RootDirs(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	several := s.Flags.Recursive || len(dirs) > 1
	for _, dir := range dirs {
		errs = append(errs, addModule(ctx, s, t, dir, several))
	}
	if err = errors.Join(errs...); err == nil && t.modules == 0 { // a key or file for nothing would hide a wrong directory
		err = sources.WithHint(errors.New("there is no root module here"), "name root modules, or search for them with -R")
	}
	return t, err
}

// addModule adds the requirements of the root module in dir, which may be one of several.
func addModule(ctx context.Context, s *site.Site, t *Tree, dir string, several bool) error {
	out := s.OutFor(dir, several)
	m, err := s.Root(ctx, dir, out)
	if err != nil {
		return err
	}
	if err := out.Warnings(m.LockProblems); err != nil {
		return err
	}
	if m.Lock.Exists {
		t.modules++
		for _, e := range m.Lock.Entries() {
			if !m.Overridden(e.Provider) {
				t.Locked = append(t.Locked, LockedProvider{e, dir})
			}
		}
		return nil
	}
	root, err := m.NeedsIfAny(ctx, several) // others may have requirements
	if err != nil || root == nil {
		return err
	}
	t.modules++
	for _, r := range root.Requirements {
		t.Open = append(t.Open, openProvider{r, s.Shown(dir)})
	}
	return nil
}

// Selections returns the versions that the lock file in dir selects.
func Selections(dir string) (cachedir.Selections, error) {
	return SelectedBy(filepath.Join(dir, lockfile.Name))
}

// SelectedBy returns the versions that the lock file at path selects.
func SelectedBy(path string) (cachedir.Selections, error) {
	file, ds := lockfile.Read(path)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	selected := cachedir.Selections{}
	for _, e := range file.Entries() {
		selected[e.Provider] = e.Version
	}
	return selected, nil
}
