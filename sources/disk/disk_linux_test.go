package disk_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/disk"
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
			s := sourcetest.Must(d.Scratch("run-"))(t)
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

// TestMain runs all tests twice. The second time, there is no system call that resolves a whole path, as on
// other systems, in sandboxes and with older kernels, and removed files stay in their directory until they
// are closed.
func TestMain(m *testing.M) {
	status := m.Run()
	if os.Getenv("LARDER_TEST_KIND") != "" { // scripts/test-filesystems: the file system is what differs
		os.Exit(status)
	}
	restore, restoreRemoval := disk.WithoutOpenat2(), disk.KeepingOpenFiles()
	_ = flag.Set("test.short", "true") // what takes long resolves no paths
	status = max(status, m.Run())
	restore()
	restoreRemoval()
	os.Exit(status)
}

// Another process exchanges a directory or a file for a link to one in the same tree,
// again and again. Nothing in the target of the link is opened.
func TestExchangesForLinks(t *testing.T) {
	root := t.TempDir()
	write(t, "right", root, "dir", "file")
	write(t, "right", root, "file")
	write(t, "wrong", root, "other", "file")
	for link, target := range map[string]string{"dirlink": "other", "filelink": "other/file"} {
		check(t, sourcetest.Symlink(t, target, filepath.Join(root, link)))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range []string{"dir", "file"} {
				at := filepath.Join(root, name)
				_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, at+"link", unix.RENAME_EXCHANGE)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	d := open(t, root)
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		for _, name := range []string{"dir/file", "file"} {
			data, _, err := d.ReadFile(name, 10)
			var stray *disk.StrayError
			switch {
			case err == nil:
				sourcetest.Equal(t, string(data), "right", name)
			case !errors.As(err, &stray):
				var failed *fs.PathError
				sourcetest.Expect(t, errors.As(err, &failed), "%s: %v", name, err)
			}
		}
	}
}

// A lock file of another user can be open for reading only.
func TestOpenTofuLockWithoutWriteAccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "linux_amd64.lock")
	sourcetest.Check(t, os.WriteFile(path, nil, 0o644))
	mine := sourcetest.Must(os.Open(path))(t)
	theirs := sourcetest.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer theirs.Close()
	for _, step := range []struct {
		by   *os.File
		want bool
	}{{mine, true}, {theirs, false}} {
		ok := sourcetest.Must(disk.TryWhole(step.by))(t)
		sourcetest.Equal(t, ok, step.want, "locked")
	}
	sourcetest.Check(t, mine.Close())
	ok := sourcetest.Must(disk.TryWhole(theirs))(t)
	sourcetest.Expect(t, ok, "the lock is not free after the file is closed")
}
