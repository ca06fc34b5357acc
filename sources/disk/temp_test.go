package disk_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A write beside the user's files removes what killed runs have left there, and nothing else.
func TestWriteFileRemovesAbandonedFiles(t *testing.T) {
	dir, long := t.TempDir(), time.Now().Add(-2*disk.Abandoned)
	const left, running = ".a.hcl.ABCDEFGHIJKLMNOPQRSTUVWXYZ", ".a.hcl.ABCDEFGHIJKLMNOPQRSTUVWXY2"
	kept := []string{".a.hcl.swp", ".a.hcl.01010101010101010101010101", ".b.hcl.ABCDEFGHIJKLMNOPQRSTUVWXYZ", running}
	for _, name := range append(slices.Clone(kept), left) {
		path := write(t, "text", dir, name)
		if name != running {
			check(t, os.Chtimes(path, long, long))
		}
	}
	check(t, disk.WriteFile(filepath.Join(dir, "a.hcl"), []byte("new"), disk.Lazily))
	for _, name := range append(kept, "a.hcl") {
		_, err := os.Lstat(filepath.Join(dir, name))
		sourcetest.Expect(t, err == nil, "%s: %v", name, err)
	}
	_, err := os.Lstat(filepath.Join(dir, left))
	sourcetest.ErrorIs(t, err, os.ErrNotExist, left)
}
