//go:build unix

package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var fullDiskErrors = map[error]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false, syscall.EFBIG: false}

// TestPipesAreRefused checks that opening a pipe never waits for its other end.
func TestPipesAreRefused(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "pipe")
	err := unix.Mkfifo(path, 0o644)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("this file system has no pipes: %v", err)
	}
	check(t, err)
	d := open(t, root)
	_, _, err = disk.OpenFile(path)
	sourcetest.Expect(t, errors.Is(err, disk.ErrNotRegular), "OpenFile: %v", err)
	_, _, err = d.ReadFile("pipe", 1)
	strayed(t, "ReadFile", err, path)
	_, err = d.EditFile("pipe")
	strayed(t, "EditFile", err, path)
	_, err = d.Lock("pipe").Try()
	strayed(t, "Lock", err, path)
	_, err = d.Sub("pipe")
	strayed(t, "Sub", err, path)
	check(t, os.Mkdir(filepath.Join(root, "a"), 0o755))
	check(t, unix.Mkfifo(filepath.Join(root, "a", "pipe"), 0o644))
	_, err = d.Sub("a/pipe")
	strayed(t, "Sub", err, filepath.Join(root, "a", "pipe"))
	for name, open := range map[string]func(string) (*disk.Dir, error){"Open": disk.Open, "Make": disk.Make} {
		_, err = open(path)
		sourcetest.ErrorIs(t, err, syscall.ENOTDIR, name)
	}
}

// A hardlink of the user's file may be at the place of any file that Larder changes
// in place. Such a file is locked, or replaced, and stays as it is.
func TestFilesWithOtherNames(t *testing.T) {
	for name, act := range map[string]func(*disk.Dir) error{
		"EditFile": func(d *disk.Dir) error {
			_, err := d.EditFile("file")
			sourcetest.ErrorIs(t, err, disk.ErrShared)
			return nil
		},
		"OpenLock": func(d *disk.Dir) error {
			f, err := d.OpenLock("file")
			check(t, err)
			return f.Close()
		},
		"Announce": func(d *disk.Dir) error {
			l := d.Lock("file")
			check(t, second(l.Try()))
			l.Announce(time.Now())
			l.Unlock()
			return nil
		},
		"Touch": func(d *disk.Dir) error {
			sourcetest.ErrorIs(t, d.Touch("file", time.Now()), disk.ErrShared)
			return nil
		},
		"WriteFile": func(d *disk.Dir) error { return d.WriteFile("file", nil, disk.Lazily) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			mine := write(t, "text", t.TempDir(), "file")
			before := stat(t, mine)
			check(t, sourcetest.Link(t, mine, filepath.Join(root, "file")))
			check(t, act(open(t, root)))
			contains(t, mine, "text")
			after := stat(t, mine)
			sourcetest.Expect(t, after.ModTime().Equal(before.ModTime()) && after.Mode() == before.Mode(), "%v, was %v", after, before)
		})
	}
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	check(t, err)
	return info
}

// Another process may remove an open directory at any moment.
func TestReadRemovedDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	check(t, os.Mkdir(path, 0o755))
	d, err := disk.Open(path)
	check(t, err)
	defer d.Close()
	check(t, os.Remove(path))
	entries, err := d.ReadDir()
	sourcetest.Expect(t, len(entries) == 0 && err == nil, "%v, %v", entries, err)
}

// Changes are made in the directory that was opened, even if another one has its name now.
func TestExchangedDirectories(t *testing.T) {
	root := t.TempDir()
	write(t, "mine", root, "dir", "file")
	sub, err := open(t, root).Sub("dir")
	check(t, err)
	defer sub.Close()
	check(t, os.Rename(filepath.Join(root, "dir"), filepath.Join(root, "away")))
	canary := write(t, "canary", root, "dir", "file")
	check(t, disk.Rename(sub, "file", sub, "moved"))
	check(t, sub.WriteFile("file", []byte("new"), disk.Lazily))
	contains(t, canary, "canary")
	contains(t, filepath.Join(root, "away", "moved"), "mine")
	check(t, sub.RemoveTree("file"))
	contains(t, canary, "canary")
}
