//go:build linux

package cachedir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
	"golang.org/x/sys/unix"
)

// mount mounts a new file system at dir, if this test has permission.
func mount(t *testing.T, source, dir, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, dir, kind, flags, data); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

// A cache that cannot be written is usable, and each package is hashed once.
func TestReadOnly(t *testing.T) {
	root, _, s := cached(t, cachedir.Options{})
	foreign := packageID("example.test/acme/widget", "2.0.0")
	widgetFiles.unpack(t, filepath.Join(root, filepath.FromSlash(foreign.Path())))
	mount(t, root, root, "", unix.MS_BIND, "")
	check(t, unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))

	d := open(t, root, cachedir.Options{})
	sourcetest.Require(t, d.ReadOnly() != nil, "it can be written")
	got := get(t, d, widget)
	sourcetest.Expect(t, got.ZH == s.ZH && got.Signed != nil, "got %+v", got)
	for range 2 {
		got := get(t, d, foreign)
		sourcetest.Equal(t, got.H1, s.H1, got)
	}
	target := targetIn(t.TempDir())
	linked(t, d, s, target)
	sameTree(t, target, widgetFiles)
	_, err := sourcetest.Put(context.Background(), d, foreign, delivery(nil))
	sourcetest.ErrorIs(t, err, syscall.EROFS, "Put")
	_, err = cachedir.Open(filepath.Join(root, "new"), cachedir.Options{})
	sourcetest.ErrorIs(t, err, syscall.EROFS, "Open")
}

// Across file systems auto falls back to a symlink, and an explicit mode that is
// impossible returns the reason.
func TestLinkAcross(t *testing.T) {
	work := t.TempDir()
	mount(t, "tmpfs", work, "tmpfs", 0, "size=4m")
	root, _, s := cached(t, cachedir.Options{})
	for _, tc := range []struct {
		mode, used sources.LinkMode
		err        error
	}{
		{"auto", "symlink", nil}, {"copy", "copy", nil}, {"symlink", "symlink", nil},
		{"hardlink", "", syscall.EXDEV}, {"reflink", "", syscall.EXDEV},
	} {
		target := targetIn(work)
		used, err := link(context.Background(), open(t, root, cachedir.Options{Link: tc.mode}), s, target)
		sourcetest.Expect(t, used == tc.used && errors.Is(err, tc.err), "%s: linked by %q, %v", tc.mode, used, err)
		sameTree(t, target, widgetFiles)
		alone(t, target)
	}
}

// A user who can change a saved cache can put other files into it. When the cache is
// restored, these files make a changed one land on the inode of a recorded one. Its size
// and modification time are the recorded ones too.
func TestRestoredToTheSameInodes(t *testing.T) {
	for name, change := range map[string]files{
		"unchanged": {},
		"changed":   {executable: "The provider"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			mount(t, "tmpfs", root, "tmpfs", 0, "size=4m")
			d := sourcetest.Must(cachedir.Open(root, cachedir.Options{Records: store.Records{Key: testKey}, Judge: sourcetest.Verdicts{}}))(t)
			put(t, d, widget, widgetFiles)
			check(t, d.Close()) // an open file would keep the file system, and its device number
			saved := filepath.Join(t.TempDir(), "saved")
			check(t, os.CopyFS(saved, os.DirFS(root)))
			entry := filepath.Join(root, filepath.FromSlash(widget.Path()))
			was := map[string]fs.FileInfo{}
			for name := range widgetFiles {
				info := stat(t, filepath.Join(entry, name))
				was[name] = info
			}
			check(t, unix.Unmount(root, 0))
			check(t, unix.Mount("tmpfs", root, "tmpfs", 0, "size=4m"))
			check(t, os.MkdirAll(filepath.Join(entry, "docs"), 0o755))
			for _, name := range slices.SortedFunc(maps.Keys(was), func(a, b string) int { return int(inode(was[a])) - int(inode(was[b])) }) {
				text, ok := change[name]
				if !ok {
					text = widgetFiles[name]
				}
				path, mtime := filepath.Join(entry, name), was[name].ModTime()
				check(t, os.Rename(junk(t, root, inode(was[name])), path))
				check(t, os.WriteFile(path, []byte(text), 0o644))
				check(t, os.Chmod(path, was[name].Mode()))
				check(t, os.Chtimes(path, mtime, mtime))
			}
			check(t, os.CopyFS(filepath.Join(root, ".larder"), os.DirFS(filepath.Join(saved, ".larder"))))
			s := get(t, open(t, root, cachedir.Options{}), widget)
			sourcetest.Equal(t, s.H1 == widgetFiles.h1(t), len(change) == 0, "H1 as before")
			sourcetest.Equal(t, s.ZH != "", len(change) == 0, "the record applies")
		})
	}
}

// junk creates files until one has the inode, and returns its path.
func junk(t *testing.T, dir string, want uint64) string {
	t.Helper()
	for i := range 1000 {
		path := filepath.Join(dir, fmt.Sprint("junk", want, "-", i))
		check(t, os.WriteFile(path, nil, 0o644))
		info := stat(t, path)
		switch now := inode(info); {
		case now == want:
			return path
		case now > want:
			t.Skipf("inode %d was already used", want)
		}
	}
	t.Skip("inodes are not numbered in order")
	return ""
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// Where a file system keeps no birth time, a record has the time of the last change,
// which a hardlink changes. Linking updates the record.
func TestRecordsWithoutBirthTime(t *testing.T) {
	root := t.TempDir()
	mount(t, "ramfs", root, "ramfs", 0, "")
	s := put(t, open(t, filepath.Join(root, "cache"), cachedir.Options{}), widget, widgetFiles)
	path := filepath.Join(s.Dir, executable)
	id := func() disk.Identity {
		info := stat(t, path)
		return disk.Identify(path, info)
	}
	before := id()
	sourcetest.Require(t, before.Born == 0 && before.Changed != 0, "%+v", before)
	d := open(t, filepath.Join(root, "cache"), cachedir.Options{Link: sources.LinkHard})
	got := get(t, d, widget)
	time.Sleep(20 * time.Millisecond) // more than a tick of the clock of the file system
	linked(t, d, got, targetIn(filepath.Join(root, "work")))
	after := id()
	sourcetest.Require(t, after != before, "linking changed nothing")
	s = get(t, open(t, filepath.Join(root, "cache"), cachedir.Options{Link: sources.LinkHard}), widget)
	sourcetest.Expect(t, s.ZH == got.ZH && id() == after, "got %+v", s)
}
