package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// ErrNoExecutable matches the error of [Executable] for a directory without the
// provider's executable.
var ErrNoExecutable = errors.New("no provider executable")

// Executable returns the name of the file in dir that engines run as the
// provider of the given type. That is the first one named
// terraform-provider-TYPE, or that name followed by "_" or "." and any text.
// The version and the mode do not matter.
func Executable(dir, typ string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if !e.IsDir() && sources.NamesExecutable(e.Name(), typ) {
			return e.Name(), nil
		}
	}
	return "", noExecutable(typ)
}

// ExecutableIn is like [Executable], for the contents of a package.
func ExecutableIn(c sources.Contents, typ string) (string, error) {
	for _, f := range c.Files {
		if !strings.Contains(f.Path, "/") && sources.NamesExecutable(f.Path, typ) {
			return f.Path, nil
		}
	}
	return "", noExecutable(typ)
}

// ErrNotExecutable matches the error of [CheckExecutable] for a file that this user
// may not execute.
var ErrNotExecutable = errors.New("is not executable")

// CheckExecutable returns an error if engines could not start the file name, the
// executable of the package id in dir. Packages for Windows need no execute
// permission.
func CheckExecutable(dir, name string, id sources.PackageID) error {
	if id.Platform.OS == "windows" {
		return nil
	}
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if disk.NoExec(path) {
		return fmt.Errorf("%s %w: its file system is mounted without execute permission", name, ErrNotExecutable)
	}
	if !disk.Executable(info) {
		return fmt.Errorf("%s %w", name, ErrNotExecutable)
	}
	return nil
}

// Startable returns an error if engines could not start the provider of the package id in dir.
func Startable(dir string, id sources.PackageID) error {
	name, err := Executable(dir, id.Provider.Type)
	if err != nil {
		return err
	}
	return CheckExecutable(dir, name, id)
}

// LetExecute restores the execute permission of the file name, the executable of the
// package id below root. It follows no links. The error matches [ErrNotExecutable] if
// the permission is still missing.
func LetExecute(root, name string, id sources.PackageID) error {
	dir := filepath.Join(root, filepath.FromSlash(id.Path()))
	in, err := disk.Open(root)
	if err == nil {
		err = in.LetExecute(id.Path() + "/" + name)
		in.Close()
	}
	missing := CheckExecutable(dir, name, id) // some file systems ignore changes of modes
	if missing != nil && err != nil {
		return fmt.Errorf("%w: %w", missing, disk.Cause(err))
	}
	return missing
}

func noExecutable(typ string) error {
	name := sources.FilePrefix + typ
	err := fmt.Errorf("%w: nothing at the top of the package is named %s, %[2]s_… or %[2]s.…", ErrNoExecutable, name)
	return sources.WithHint(err,
		"check that this is a package of the provider %q, with its executable outside any folder", typ)
}
