package job

import (
	"errors"
	"path/filepath"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cachedir/view"
	"github.com/larder-cli/larder/cliconfig"
)

// The directories in the user's state directory with all views of larder exec, and with the shims that it makes.
const (
	Views = "exec"
	Shims = "shims"
)

// InState returns a directory in the user's state directory, which may not exist. It is empty without one.
func InState(m cliconfig.Machine, name string) string {
	if m.StateDir() == "" {
		return ""
	}
	return filepath.Join(m.StateDir(), name)
}

// ViewUsers returns the working directories of views as root modules that use packages.
func ViewUsers(m cliconfig.Machine) (roots []cachedir.Root, gone []*view.View, err error) {
	home := InState(m, Views)
	if home == "" {
		return nil, nil, nil
	}
	all, err := view.All(home)
	for _, v := range all {
		if v.Gone() {
			gone = append(gone, v)
		} else {
			roots = append(roots, cachedir.Root{Dir: v.WorkDir, Providers: v.Providers, View: true})
		}
	}
	return roots, gone, err
}

// RemoveGoneViews removes the views of working directories that no longer exist.
func RemoveGoneViews(m cliconfig.Machine) error {
	_, gone, err := ViewUsers(m)
	errs := []error{err}
	for _, v := range gone {
		errs = append(errs, v.Remove())
	}
	return errors.Join(errs...)
}
