package disk_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// mount mounts a file system until the test ends, or skips the test.
func mount(t *testing.T, source, at, kind string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(source, at, kind, flags, ""); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(at, unix.MNT_DETACH)) })
}

// A mount point below the opened directory is neither entered nor emptied,
// whether the same or another file system is mounted there.
func TestMountsAreLeftAlone(t *testing.T) {
	for name, bind := range map[string]bool{"file system": false, "bind": true} {
		t.Run(name, func(t *testing.T) {
			root, outside := t.TempDir(), t.TempDir()
			at := filepath.Join(root, "tree", "sub", "mounted")
			write(t, "", root, "tree", "file")
			check(t, os.MkdirAll(at, 0o755))
			if bind {
				mount(t, outside, at, "", unix.MS_BIND)
			} else {
				mount(t, "tmpfs", at, "tmpfs", 0)
			}
			canary := write(t, "canary", at, "canary")
			if bind {
				canary = filepath.Join(outside, "canary")
			}
			d := open(t, root)
			_, err := d.Sub("tree/sub/mounted")
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
			contains(t, canary, "canary")
		})
	}
}

// A read-only file system allows shared locks.
func TestLockOnReadOnlyFileSystem(t *testing.T) {
	root := t.TempDir()
	mount(t, "tmpfs", root, "tmpfs", 0)
	write(t, "", root, "lock")
	check(t, unix.Mount("tmpfs", root, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	lock := open(t, root).Lock("lock")
	ok, err := lock.TryShared()
	sourcetest.Expect(t, ok && err == nil, "%v, %v", ok, err)
	lock.Unlock()
}

// The opened path may be a mount point.
func TestMountsMayBeOpened(t *testing.T) {
	root := t.TempDir()
	outside := t.TempDir()
	mount(t, outside, root, "", unix.MS_BIND)
	write(t, "", root, "run-DEADAAAAAAAA", "~lock")
	d := open(t, root)
	d.Sweep("run-", time.Now(), func(err error) { t.Error(err) })
	sourcetest.Equal(t, names(t, root), "", "left are")
}

// A mount point below the directory is skipped.
func TestSyncTreeStaysInItsFileSystem(t *testing.T) {
	root := t.TempDir()
	at := filepath.Join(root, "dir")
	check(t, os.Mkdir(at, 0o755))
	mount(t, "tmpfs", at, "tmpfs", 0)
	check(t, open(t, root).SyncTree(t.Context()))
}
