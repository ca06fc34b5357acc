package datadir_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/installer/datadir"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func init() {
	kinds = append(kinds,
		kind{"a named pipe", func(_ *testing.T, path, _ string) error { return unix.Mkfifo(path, 0o644) }, true},
		kind{"a socket", func(_ *testing.T, path, _ string) error { return unix.Mknod(path, unix.S_IFSOCK|0o644, 0) }, true})
}

// Mounted files and directories are refused.
func TestCheckMounts(t *testing.T) {
	for _, place := range slices.Concat(dirs, files) {
		t.Run(place, func(t *testing.T) {
			root := newRoot(t)
			path, outside := filepath.Join(root, ".terraform", place), filepath.Join(root, "outside")
			if slices.Contains(files, place) {
				outside = filepath.Join(outside, "file")
			}
			if err := unix.Mount(outside, path, "", unix.MS_BIND, ""); err != nil {
				t.Skip("cannot mount: ", err)
			}
			t.Cleanup(func() { check(t, unix.Unmount(path, unix.MNT_DETACH)) })
			refused(t, datadir.Check(filepath.Join(root, ".terraform")), path)
		})
	}
}

// A pipe instead of the data directory is not waited for.
func TestCheckPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".terraform")
	check(t, unix.Mkfifo(path, 0o644))
	refused(t, datadir.Check(path), path)
	check(t, os.Remove(path))
	check(t, sourcetest.Symlink(t, ".terraform", path))
	sourcetest.Expect(t, datadir.Check(path) != nil, "a link to itself is accepted")
}
