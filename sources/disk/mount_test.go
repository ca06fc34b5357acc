package disk_test

import (
	"io/fs"
	"os"
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

// The sticky bit keeps users from exchanging files of others.
func TestWritableByAll(t *testing.T) {
	sourcetest.RequireModes(t)
	for mode, want := range map[fs.FileMode][2]bool{
		0o755:                 {false, false},
		0o775:                 {false, false},
		0o777:                 {true, true},
		0o777 | fs.ModeSticky: {true, false},
	} {
		dir := t.TempDir()
		check(t, os.Chmod(dir, mode))
		info, err := os.Stat(dir)
		check(t, err)
		create, exchange := disk.WritableByAll(info)
		sourcetest.Equal(t, [2]bool{create, exchange}, want)
		sourcetest.Equal(t, disk.OfOther(info), false)
	}
}
