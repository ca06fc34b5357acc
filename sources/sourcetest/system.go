package sourcetest

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Symlink creates a symbolic link at path. It skips the test if there are none: FAT has none, and on Windows, the
// user may lack the right to create them, and Wine creates nothing.
func Symlink(t testing.TB, target, path string) error {
	t.Helper()
	err := os.Symlink(target, path)
	if err == nil {
		_, err = os.Lstat(path)
	}
	if err != nil && filepath.Separator == '\\' || isLacking(err) {
		t.Skipf("cannot create symbolic links: %v", err)
	}
	return err
}

// Link creates a hardlink at path. It skips the test if the file system has none.
func Link(t testing.TB, old, path string) error {
	t.Helper()
	err := os.Link(old, path)
	if isLacking(err) {
		t.Skipf("this file system has no hardlinks: %v", err)
	}
	return err
}

// RequireModes skips the test if the file system of the temporary directory keeps no modes.
func RequireModes(t testing.TB) {
	t.Helper()
	if !KeepsModes(t) {
		t.Skip("the file system of the temporary directory keeps no modes")
	}
}

// KeepsModes reports whether files in the temporary directory keep their permission bits.
func KeepsModes(t testing.TB) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	Check(t, os.WriteFile(path, nil, 0o600))
	err := os.Chmod(path, 0o646)
	info, statErr := os.Stat(path)
	Check(t, statErr)
	return err == nil && info.Mode().Perm() == 0o646
}

// isLacking reports whether err is that of a file system without the function.
func isLacking(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported)
}

// RequireSymlinks skips the test if this system has no symbolic links, as Symlink does.
func RequireSymlinks(t testing.TB) {
	t.Helper()
	Require(t, Symlink(t, "nowhere", filepath.Join(t.TempDir(), "link")) == nil, "cannot create a symbolic link")
}

// SkipOnWindows skips a test of what Windows doesn't have.
func SkipOnWindows(t testing.TB, reason string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("on Windows, " + reason)
	}
}

// HasModes reports whether files have permission bits and execute permission.
const HasModes = runtime.GOOS != "windows"
