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
func TestFileSystemOf(t *testing.T) {
	dir := t.TempDir()
	here, missing := disk.FileSystemOf(dir), disk.FileSystemOf(filepath.Join(dir, "a", "b"))
	sourcetest.Equal(t, missing, here)
	sourcetest.Expect(t, here.Same(missing), "a directory is on another file system than itself")
	sourcetest.Equal(t, here.Links(missing), os.Link(write(t, "text", dir, "file"), filepath.Join(dir, "link")) == nil)
	sourcetest.Equal(t, disk.Existing(filepath.Join(dir, "file", "below")), filepath.Join(dir, "file"))
	sourcetest.Expect(t, here.Mount != "" && !here.ReadOnly, "%+v", here)
	if proc := disk.FileSystemOf("/proc/self"); runtime.GOOS == "linux" {
		sourcetest.Expect(t, proc.Mount == "/proc" && !proc.Same(here) && !proc.Links(here), "%+v", proc)
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
