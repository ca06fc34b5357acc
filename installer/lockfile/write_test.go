package lockfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestWriteReplacesFile(t *testing.T) {
	dir := t.TempDir()
	path, elsewhere := filepath.Join(dir, lockfile.Name), filepath.Join(t.TempDir(), "shared.hcl")
	check(t, os.WriteFile(elsewhere, []byte("old"), 0o600))
	if err := sourcetest.Symlink(t, elsewhere, path); err != nil {
		t.Skip(err) // Windows requires a privilege
	}
	check(t, lockfile.Write(path, []byte("new")))
	text, _ := os.ReadFile(elsewhere)
	sourcetest.Equal(t, string(text), "old", "what the symlink led to now holds")
	info, err := os.Lstat(path)
	check(t, err)
	sourcetest.Expect(t, runtime.GOOS == "windows" || info.Mode() == 0o644, "mode = %v, want 0644", info.Mode())
	text, _ = os.ReadFile(path)
	sourcetest.Equal(t, string(text), "new", "file holds")
	onlyFile(t, dir)
}

func TestWriteThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lockfile.Name)
	check(t, os.MkdirAll(filepath.Join(path, "occupied"), 0o700))
	err := lockfile.Write(path, []byte("new"))
	sourcetest.Expect(t, err != nil && strings.Count(err.Error(), path) == 1,
		"error = %v, want one that names the file once", err)
	onlyFile(t, dir)
}

// onlyFile checks that dir contains only the lock file.
func onlyFile(t *testing.T, dir string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	sourcetest.Expect(t, err == nil && len(names) == 1 && names[0].Name() == lockfile.Name, "directory holds %v, %v", names, err)
}
