// Package datadir checks whether an engine may be started. Engines follow links
// in their data directory, usually .terraform, and change existing files there.
// A checkout can contain both, and repositories that make git run commands.
//
// It leaves nothing on disk.
package datadir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// places are the files below a data directory that engines change in place. The
// directories above them are those in which engines create files. A star stands
// for every name that doesn't begin with a dot. Anything else that engines
// write there, they remove first: the directories of modules and the packages of
// providers.
var places = []string{
	".terraform.tfstate.lock.info", // while terraform.tfstate is locked
	"environment",                  // the selected workspace
	"modules/modules.json",         // the installed modules
	"plugin_path",                  // the values of -plugin-dir
	"providers/*/*/*/*/*.lock",     // OpenTofu's lock of each package
	"terraform.tfstate",            // the settings of the backend
}

// Check returns a [disk.StrayError] if an engine that uses the data directory
// dir would write elsewhere: through a link or a mount, or into a file that has
// another name. It also refuses special files, and directories instead of
// files. The directory itself may be missing or a link.
func Check(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		err = &disk.StrayError{Path: dir, Is: "not a directory"}
	}
	if err == nil {
		err = checkPlaces(dir)
	}
	if stray, ok := errors.AsType[*disk.StrayError](err); ok {
		return sources.WithHint(stray, "remove or rename it: terraform and tofu write there, and would change other files")
	}
	return err
}

func checkPlaces(dir string) error {
	d, err := disk.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for _, p := range places {
		if err := check(d, strings.Split(p, "/")); err != nil {
			return err
		}
	}
	return nil
}

// check checks the files below d that match a pattern, given by its elements.
func check(d *disk.Dir, pattern []string) error {
	names := pattern[:1]
	if strings.Contains(pattern[0], "*") {
		var err error
		if names, err = matching(d, pattern); err != nil {
			return err
		}
	}
	if len(pattern) == 1 {
		return d.CheckFiles(names...)
	}
	for _, name := range names {
		sub, err := d.Sub(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = check(sub, pattern[1:])
		if err := errors.Join(err, sub.Close()); err != nil {
			return err
		}
	}
	return nil
}

// matching returns the names in d that match the first element of a pattern.
// Regular files don't match if more elements follow: engines can't enter them.
func matching(d *disk.Dir, pattern []string) ([]string, error) {
	entries, err := d.ReadDir()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		ok, _ := path.Match(pattern[0], e.Name()) // the patterns are valid
		if ok && !strings.HasPrefix(e.Name(), ".") && (len(pattern) == 1 || !e.Type().IsRegular()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// CheckOwn is like [Check], for an engine that Larder runs by itself or a caller
// that reads from the data directory. If the data directory is in the root module
// dir, a checkout may have put it there, so it must not be reached through a link:
// an engine removes directories of modules in it.
func CheckOwn(dir, data string) error {
	relative, err := filepath.Rel(dir, data)
	if err != nil || !filepath.IsLocal(relative) {
		return Check(data)
	}
	d, err := disk.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	sub, err := d.Sub(filepath.ToSlash(relative))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(Check(data), sub.Close())
}

// CheckBelow is like [Check], for the data directories of dir and all directories
// below it. The name of the data directories is absolute, or relative to each of
// these. Links are not followed. Directories that this user can't enter are skipped.
func CheckBelow(ctx context.Context, dir, name string) error {
	if filepath.IsAbs(name) {
		return Check(name)
	}
	name = filepath.Clean(name)
	return filepath.WalkDir(dir+string(filepath.Separator), func(at string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist): // it was checked before it was listed
			return nil
		case err != nil:
			return err
		case !e.IsDir():
			return nil
		case e.Name() == ".git", strings.HasSuffix(at, filepath.Join(string(filepath.Separator)+name, "providers")):
			return fs.SkipDir
		}
		data := filepath.Join(at, name)
		if _, err := os.Stat(data); errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return Check(data)
	})
}
