package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A PathKind is what a path that the user typed must lead to.
type PathKind string

// The kinds.
const (
	File      PathKind = "file"
	Directory PathKind = "directory"
	FileOrDir PathKind = "file or directory"
)

// Existing returns the absolute form of a path, as typed and relative to base. It fails, with the hint, if
// nothing of the kind is there, and with the path in full, for "." tells nothing, if that cannot be found out.
func Existing(base, typed string, kind PathKind, hint string, args ...any) (string, error) {
	path := Absolute(base, typed)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no %s %s", kind, typed)
	case err != nil:
		err = fmt.Errorf("cannot use %s: %w", path, disk.Cause(err))
	case kind == Directory && !info.IsDir():
		err = fmt.Errorf("%s is not a directory", typed)
	case kind == File && info.IsDir():
		err = fmt.Errorf("%s is a directory, not a file", typed)
	}
	if err != nil {
		return path, sources.WithHint(err, hint, args...)
	}
	return path, nil
}

// cannotWrite returns the error for a directory in which no file can be created. The names of temporary
// files tell users nothing.
func cannotWrite(dir string, err error) error {
	return fmt.Errorf("cannot write in %s: %w", dir, disk.Cause(err))
}

// parentOf returns the absolute form of the path of a file to write. It fails if there is no directory for it.
func (s *Session) parentOf(typed string) (string, error) {
	_, err := Existing(s.workDir, filepath.Dir(typed), Directory, "create the directory, or write the file elsewhere")
	return Absolute(s.workDir, typed), err
}

// bundleAt returns the path of a bundle, as typed.
func (s *Session) bundleAt(typed string) (string, error) {
	return Existing(s.workDir, typed, File, "name a file that larder bundle create or larder cache export has written")
}
