package sourcetest

import (
	"os"
	"path/filepath"
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
