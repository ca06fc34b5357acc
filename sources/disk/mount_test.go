package disk_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The file system of a missing file is that of the nearest directory above it.
func TestMount(t *testing.T) {
	dir := t.TempDir()
	sourcetest.Equal(t, disk.Mount(filepath.Join(dir, "a", "b")), disk.Mount(dir))
	sourcetest.Equal(t, disk.Existing(filepath.Join(write(t, "text", dir, "file"), "below")), filepath.Join(dir, "file"))
	if runtime.GOOS == "linux" {
		sourcetest.Equal(t, disk.Mount("/proc/self"), "/proc")
	}
}
