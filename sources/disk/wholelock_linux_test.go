package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A lock file of another user can be open for reading only.
func TestOpenTofuLockWithoutWriteAccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "linux_amd64.lock")
	sourcetest.Check(t, os.WriteFile(path, nil, 0o644))
	mine, err := os.Open(path)
	sourcetest.Check(t, err)
	theirs, err := os.OpenFile(path, os.O_RDWR, 0)
	sourcetest.Check(t, err)
	defer theirs.Close()
	for _, step := range []struct {
		by   *os.File
		want bool
	}{{mine, true}, {theirs, false}} {
		ok, err := disk.TryWhole(step.by)
		sourcetest.Check(t, err)
		sourcetest.Equal(t, ok, step.want, "locked")
	}
	sourcetest.Check(t, mine.Close())
	ok, err := disk.TryWhole(theirs)
	sourcetest.Check(t, err)
	sourcetest.Expect(t, ok, "the lock is not free after the file is closed")
}
