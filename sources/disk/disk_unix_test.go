//go:build unix

package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var fullDiskErrors = map[error]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false, syscall.EFBIG: false}

// TestPipesAreRefused checks that opening a pipe never waits for its other end.
func TestPipesAreRefused(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "pipe")
	check(t, unix.Mkfifo(path, 0o644))
	d := open(t, root)
	if _, _, err := disk.OpenFile(path); !errors.Is(err, disk.ErrNotRegular) {
		t.Errorf("OpenFile: %v", err)
	}
	_, _, err := d.ReadFile("pipe", 1)
	strayed(t, "ReadFile", err, path)
	_, err = d.EditFile("pipe")
	strayed(t, "EditFile", err, path)
	_, err = d.Lock("pipe").Try()
	strayed(t, "Lock", err, path)
	_, err = d.Sub("pipe")
	strayed(t, "Sub", err, path)
}

// If two names cannot be exchanged and the second rename fails, the first
// rename is undone.
func TestReplacePutsBackWhatItMovedAside(t *testing.T) {
	root := t.TempDir()
	write(t, "old", root, "place", "file")
	d := open(t, root)
	s, err := d.Scratch("run-")
	check(t, err)
	defer disk.WithoutExchange()()
	sourcetest.ErrorIs(t, replace(s, "missing", d, "place"), fs.ErrNotExist)
	got, err := os.ReadFile(filepath.Join(root, "place", "file"))
	sourcetest.Expect(t, string(got) == "old", "%q, %v", got, err)
	write(t, "new", s.Path("made"), "file")
	check(t, replace(s, "made", d, "place"))
	got, err = os.ReadFile(filepath.Join(root, "place", "file"))
	sourcetest.Expect(t, string(got) == "new", "%q, %v", got, err)
	check(t, s.Close())
}
