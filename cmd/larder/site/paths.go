package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/larder-cli/larder/cliconfig/programs"
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
		if near := nearestDir(base, typed); near != "" && kind == Directory {
			hint, args = "did you mean %s?", []any{near}
		}
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

// CannotWrite returns the error for a directory in which no file can be created. The names of temporary
// files tell users nothing.
func CannotWrite(dir string, err error) error {
	return fmt.Errorf("cannot write in %s: %w", dir, disk.Cause(err))
}

// ParentOf returns the absolute form of the path of a file to write. It fails if there is no directory for it.
func (s *Site) ParentOf(typed string) (string, error) {
	_, err := Existing(s.WorkDir, filepath.Dir(typed), Directory, "create the directory, or write the file elsewhere")
	return Absolute(s.WorkDir, typed), err
}

// BundleAt returns the path of a bundle, as typed.
func (s *Site) BundleAt(typed string) (string, error) {
	return Existing(s.WorkDir, typed, File, "use a file written by bundle create or cache export")
}

// IsAddressForm reports whether an argument can be a provider's address, and whether it
// continues with a version or a constraint.
func IsAddressForm(arg string) (is, versioned bool) {
	address, _, versioned := sources.CutVersion(arg)
	_, err := sources.ParseStoredProvider(address)
	return err == nil, versioned
}

// Shown returns a path that is valid in the directory where the user runs larder.
func (s *Site) Shown(path string) string {
	relative, err := filepath.Rel(s.Machine.WorkDir, path)
	switch {
	case err != nil || !filepath.IsLocal(relative):
		return path
	case strings.HasPrefix(relative, "~"): // which would look like the home directory
		return "." + string(filepath.Separator) + relative
	}
	return relative
}

// IsFile reports whether path leads to a regular file, and not to a directory.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ShellQuoted quotes a word for a POSIX shell.
func ShellQuoted(word string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:@%,=", r)
	}
	if strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return programs.QuoteShell(word)
}
