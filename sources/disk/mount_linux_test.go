package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A mount point below the opened directory is neither entered nor emptied,
// whether the same or another file system is mounted there.
func TestMountsAreLeftAlone(t *testing.T) {
	for name, mount := range map[string]func(at string) (canary string, err error){
		"file system": func(at string) (string, error) {
			err := unix.Mount("tmpfs", at, "tmpfs", 0, "")
			return filepath.Join(at, "canary"), err
		},
		"bind": func(at string) (string, error) {
			outside := t.TempDir()
			return filepath.Join(outside, "canary"), unix.Mount(outside, at, "", unix.MS_BIND, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			at := filepath.Join(root, "tree", "sub", "mounted")
			write(t, "", root, "tree", "file")
			check(t, os.MkdirAll(at, 0o755))
			canary, err := mount(at)
			if err != nil {
				t.Skip("cannot mount: ", err)
			}
			t.Cleanup(func() { check(t, unix.Unmount(at, unix.MNT_DETACH)) })
			check(t, os.WriteFile(canary, []byte("canary"), 0o644))
			d := open(t, root)
			_, err = d.Sub("tree/sub/mounted")
			strayed(t, "Sub", err, at)
			mounted := open(t, at) // the path that the user names
			mounted.Sweep("run-", time.Now(), func(err error) { t.Error(err) })
			strayed(t, "RemoveTree", d.RemoveTree("tree"), at)
			s, err := d.Scratch("run-")
			check(t, err)
			strayed(t, "Take", s.Take(d, "tree", "taken"), at)
			check(t, os.Mkdir(s.Path("new"), 0o755))
			strayed(t, "Replace", replace(s, "new", d, "tree"), at)
			check(t, s.Close())
			data, err := os.ReadFile(canary)
			sourcetest.Expect(t, string(data) == "canary", "%q, %v", data, err)
		})
	}
}

// A read-only file system allows shared locks.
func TestLockOnReadOnlyFileSystem(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, ""); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(root, unix.MNT_DETACH)) })
	write(t, "", root, "lock")
	check(t, unix.Mount("tmpfs", root, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	lock := open(t, root).Lock("lock")
	if ok, err := lock.TryShared(); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	lock.Unlock()
}

// The opened path may be a mount point.
func TestMountsMayBeOpened(t *testing.T) {
	root := t.TempDir()
	outside := t.TempDir()
	if err := unix.Mount(outside, root, "", unix.MS_BIND, ""); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(root, unix.MNT_DETACH)) })
	write(t, "", root, "run-DEADAAAAAAAA", "~lock")
	d := open(t, root)
	d.Sweep("run-", time.Now(), func(err error) { t.Error(err) })
	sourcetest.Equal(t, names(t, root), "", "left are")
}

// A file may have another device than its directory, as on an overlay file system. The file system
// begins at a directory in any case.
func TestFullFileSystemOfFileWithOtherDevice(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, ""); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(root, unix.MNT_DETACH)) })
	layer := t.TempDir()
	write(t, "", layer, "file")
	write(t, "", root, "scratch")
	at := filepath.Join(root, "scratch")
	check(t, unix.Mount(filepath.Join(layer, "file"), at, "", unix.MS_BIND, ""))
	t.Cleanup(func() { check(t, unix.Unmount(at, unix.MNT_DETACH)) })
	full, _ := errors.AsType[*disk.FullError](disk.NoSpace(at, "the test", 1))
	sourcetest.Equal(t, full.Mount, root, "mount is")
}

// A mount point below the directory is skipped.
func TestSyncTreeStaysInItsFileSystem(t *testing.T) {
	root := t.TempDir()
	at := filepath.Join(root, "dir")
	check(t, os.Mkdir(at, 0o755))
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(at, unix.MNT_DETACH)) })
	check(t, open(t, root).SyncTree(t.Context()))
}
