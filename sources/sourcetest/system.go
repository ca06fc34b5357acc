package sourcetest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Symlink creates a symbolic link at path. It skips the test if this system has none: on Windows, the user may
// lack the right to create them, and Wine creates nothing.
func Symlink(t testing.TB, target, path string) error {
	t.Helper()
	err := os.Symlink(target, path)
	if err == nil {
		_, err = os.Lstat(path)
	}
	if err != nil && filepath.Separator == '\\' {
		t.Skipf("cannot create symbolic links: %v", err)
	}
	return err
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
