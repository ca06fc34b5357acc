package lockfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer/lockfile"
)

func TestWriteReplacesWholly(t *testing.T) {
	dir := t.TempDir()
	path, elsewhere := filepath.Join(dir, lockfile.Name), filepath.Join(t.TempDir(), "shared.hcl")
	check(t, os.WriteFile(elsewhere, []byte("old"), 0o600))
	if err := os.Symlink(elsewhere, path); err != nil {
		t.Skip(err) // Windows asks for a privilege
	}
	check(t, lockfile.Write(path, []byte("new")))
	if text, _ := os.ReadFile(elsewhere); string(text) != "old" {
		t.Errorf("what the symlink led to now holds %q", text)
	}
	info, err := os.Lstat(path)
	check(t, err)
	if runtime.GOOS != "windows" && info.Mode() != 0o644 {
		t.Errorf("mode = %v, want 0644", info.Mode())
	}
	if text, _ := os.ReadFile(path); string(text) != "new" {
		t.Errorf("file holds %q", text)
	}
	onlyFile(t, dir)
}

func TestWriteThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lockfile.Name)
	check(t, os.MkdirAll(filepath.Join(path, "occupied"), 0o700))
	err := lockfile.Write(path, []byte("new"))
	if err == nil || strings.Count(err.Error(), path) != 1 {
		t.Errorf("error = %v, want one that names the file once", err)
	}
	onlyFile(t, dir)
}

// onlyFile checks that there is nothing beside the lock file in dir.
func onlyFile(t *testing.T, dir string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != lockfile.Name {
		t.Errorf("directory holds %v, %v", names, err)
	}
}
