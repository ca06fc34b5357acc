//go:build unix

package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const group = 54400

// What is created in a directory that several users may write to has the access of that
// directory, whatever the umask is. In a directory of one user, nothing changes.
func TestShare(t *testing.T) {
	sourcetest.RequireModes(t)
	const setgid, sticky = fs.ModeSetgid, fs.ModeSticky
	for _, c := range []struct {
		root                      fs.FileMode
		dir, lock, reserved, kept fs.FileMode // of directories, locks, reserved directories and locks in them
	}{
		{0o755, 0o755, 0o644, 0o755, 0o644},
		{0o700, 0o755, 0o644, 0o755, 0o644},
		{setgid | 0o775, setgid | 0o775, 0o664, setgid | 0o775, 0o664},
		{setgid | 0o770, setgid | 0o770, 0o660, setgid | 0o770, 0o660},
		{0o775, setgid | 0o775, 0o664, setgid | 0o775, 0o664},
		{sticky | 0o777, sticky | 0o777, 0o666, 0o755, 0o644},
		{0o777, sticky | 0o777, 0o666, 0o755, 0o644},
		{setgid | sticky | 0o775, setgid | sticky | 0o775, 0o664, setgid | 0o755, 0o644},
	} {
		for _, umask := range []int{0o022, 0o002, 0o077} {
			t.Run(fmt.Sprintf("%v-%03o", c.root, umask), func(t *testing.T) {
				root := t.TempDir()
				if os.Geteuid() == 0 {
					check(t, os.Chown(root, -1, group))
				}
				check(t, os.Chmod(root, c.root))
				defer syscall.Umask(syscall.Umask(umask))
				d := open(t, root)
				shared := sourcetest.Must(d.Share())(t)
				sourcetest.Expect(t, shared == (c.root&0o022 != 0), "shared: %v", shared)
				want := func(path string, mode fs.FileMode) {
					t.Helper()
					if !shared && !d.Exists(path) {
						t.Fatal(path, "is missing")
					}
					if !shared && !strings.HasSuffix(path, "lock") {
						mode &^= fs.FileMode(umask) // as always
					}
					info := sourcetest.Must(d.Lstat(path))(t)
					got := info.Mode() & (fs.ModePerm | setgid | sticky)
					sourcetest.Expect(t, got == mode, "%s: got %v, want %v", path, got, mode)
					st := info.Sys().(*syscall.Stat_t)
					if os.Geteuid() == 0 && c.root&0o070 != 0 && shared && mode&setgid != 0 {
						sourcetest.Expect(t, st.Gid == group, "%s: group %d", path, st.Gid)
					}
				}
				a := sourcetest.Must(d.MakeSub("a/b"))(t)
				defer a.Close()
				want("a", c.dir)
				want("a/b", c.dir)
				l := d.Lock("a/lock")
				ok, err := l.Try()
				sourcetest.Expect(t, ok && err == nil, "%v, %v", ok, err)
				l.Unlock()
				want("a/lock", c.lock)
				f := sourcetest.Must(a.OpenLock("tofu.lock"))(t)
				check(t, f.Close())
				want("a/b/tofu.lock", c.lock)

				own := sourcetest.Must(d.MakeSub("own"))(t)
				defer own.Close()
				own.Reserve()
				s := sourcetest.Must(own.Scratch("run-"))(t)
				defer s.Close()
				made := sourcetest.Must(s.Mkdir("package"))(t)
				defer made.Close()
				file := sourcetest.Must(made.Create("file", 0o444))(t)
				check(t, file.Close())
				x := sourcetest.Must(own.MakeSub("x"))(t)
				defer x.Close()
				ok, err = x.Lock("lock").Try()
				sourcetest.Expect(t, ok && err == nil, "%v, %v", ok, err)
				check(t, disk.Rename(s.Dir, "package", a, "package"))
				want("own/x", c.reserved)
				want("own/x/lock", c.kept)
				want("a/b/package", c.reserved)
				info := sourcetest.Must(d.Lstat("a/b/package/file"))(t)
				sourcetest.Expect(t, info.Mode() == 0o444, "%v", info.Mode())
			})
		}
	}
}

// Directories and locks that this user owns get the access of the shared directory when they
// are used again, and those of other users stay as they are.
func TestShareOpensDirectories(t *testing.T) {
	sourcetest.RequireModes(t)
	root := t.TempDir()
	check(t, os.Chmod(root, fs.ModeSticky|0o777))
	for _, name := range []string{"mine", "others"} {
		check(t, os.Mkdir(root+"/"+name, 0o700))
		check(t, os.WriteFile(root+"/"+name+"/lock", nil, 0o600))
		check(t, os.Chtimes(root+"/"+name, time.Time{}, time.Now().Add(-time.Hour)))
	}
	want := map[string]fs.FileMode{"mine": fs.ModeDir | fs.ModeSticky | 0o777, "mine/lock": 0o666}
	if os.Geteuid() == 0 {
		check(t, os.Chown(root+"/others", stranger, -1))
		check(t, os.Chown(root+"/others/lock", stranger, -1))
		want["others"], want["others/lock"] = fs.ModeDir|0o700, 0o600
	}
	d := open(t, root)
	sourcetest.Must(d.Share())(t)
	for _, name := range []string{"mine", "others"} {
		sub := sourcetest.Must(d.MakeSub(name))(t)
		ok, err := sub.Lock("lock").Try()
		sourcetest.Expect(t, ok && err == nil, "%s: %v, %v", name, ok, err)
		check(t, sub.Close())
	}
	for path, mode := range want {
		info := sourcetest.Must(d.Lstat(path))(t)
		sourcetest.Expect(t, info.Mode() == mode, "%s: %v", path, info.Mode())
	}
}

// Only the owner of a file, of the directory, or root replaces a file in a directory with the
// sticky bit.
func TestReplaceable(t *testing.T) {
	sourcetest.RequireModes(t)
	d := open(t, t.TempDir())
	check(t, os.Mkdir(d.Path("dir"), 0o755))
	check(t, d.Replaceable("dir"))
	check(t, d.Replaceable("missing"))
	if os.Geteuid() != 0 {
		check(t, os.Chmod(d.Path("dir"), 0o555))
		sourcetest.ErrorIs(t, d.Replaceable("dir"), fs.ErrPermission)
		check(t, os.Chmod(d.Path("."), 0o555))
		sourcetest.ErrorIs(t, d.Replaceable("missing"), fs.ErrPermission)
		check(t, os.Chmod(d.Path("."), 0o755))
	}
	sourcetest.Expect(t, errors.Is(disk.ErrSticky, fs.ErrPermission), "another user's file is no lack of permission")
	sourcetest.Equal(t, disk.Owner(d.Path("dir")), "")
	if os.Geteuid() == 0 {
		check(t, os.Chown(d.Path("dir"), stranger, -1))
		sourcetest.Equal(t, disk.Owner(d.Path("dir")), fmt.Sprint("user ", stranger))
	}
}

// A holder is not named any more once a shared lock is released: the next one may be another user, who
// can't change the file.
func TestHolderOfSharedLock(t *testing.T) {
	sourcetest.RequireModes(t)
	root := t.TempDir()
	check(t, os.Chmod(root, fs.ModeSticky|0o777))
	for _, share := range []bool{false, true} {
		d := open(t, root)
		if share {
			sourcetest.Must(d.Share())(t)
		}
		l := d.Lock("lock")
		ok, err := l.Try()
		sourcetest.Expect(t, ok && err == nil, "%v, %v", ok, err)
		l.Announce(time.Now())
		sourcetest.Expect(t, d.Lock("lock").Holder().PID == os.Getpid(), "the holder is not named")
		l.Unlock()
		sourcetest.Expect(t, (d.Lock("lock").Holder().PID == 0) == share, "shared: %v: holder %+v", share, d.Lock("lock").Holder())
	}
}

// A hardlink of this user's file may exist instead of a lock file. Only this user may read it.
func TestLocksKeepModesOfFilesWithOtherNames(t *testing.T) {
	sourcetest.RequireModes(t)
	root := t.TempDir()
	check(t, os.Chmod(root, fs.ModeSticky|0o777))
	mine := write(t, "text", t.TempDir(), "file")
	check(t, os.Chmod(mine, 0o600))
	check(t, sourcetest.Link(t, mine, root+"/lock"))
	d := open(t, root)
	sourcetest.Must(d.Share())(t)
	check(t, second(d.Lock("lock").Try()))
	f := sourcetest.Must(d.OpenLock("lock"))(t)
	check(t, f.Close())
	info := sourcetest.Must(os.Stat(mine))(t)
	sourcetest.Equal(t, info.Mode(), fs.FileMode(0o600))
}
