//go:build unix

package disk_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
			f := sourcetest.Must(d.OpenLock("file"))(t)
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
	return sourcetest.Must(os.Stat(path))(t)
}

// Another process may remove an open directory at any moment.
func TestReadRemovedDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	check(t, os.Mkdir(path, 0o755))
	d := sourcetest.Must(disk.Open(path))(t)
	defer d.Close()
	check(t, os.Remove(path))
	entries, err := d.ReadDir()
	sourcetest.Expect(t, len(entries) == 0 && err == nil, "%v, %v", entries, err)
}

// Changes are made in the directory that was opened, even if another one has its name now.
func TestExchangedDirectories(t *testing.T) {
	root := t.TempDir()
	write(t, "mine", root, "dir", "file")
	sub := sourcetest.Must(open(t, root).Sub("dir"))(t)
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

func TestHidden(t *testing.T) {
	sourcetest.RequireModes(t)
	for _, tt := range []struct {
		top, dir, file fs.FileMode
		want           fs.FileMode
	}{
		{0o755, 0o755, 0o644, 0},
		{0o711, 0o711, 0o444, 0},
		{0o755, 0o755, 0o600, 0o077},
		{0o755, 0o755, 0o640, 0o007},
		{0o755, 0o755, 0o604, 0o070},
		{0o755, 0o755, 0o711, 0o077}, // to execute is not to read
		{0o755, 0o700, 0o644, 0o077},
		{0o700, 0o755, 0o644, 0o077},
		{0o750, 0o755, 0o644, 0o007},
		{0o755, 0o744, 0o644, 0o077}, // to list is not to enter
		{0o750, 0o705, 0o644, 0o077},
	} {
		top := sourcetest.PublicDir(t)
		file, link := filepath.Join(top, "dir", "file"), filepath.Join(sourcetest.PublicDir(t), "link")
		write(t, "text", file)
		check(t, sourcetest.Symlink(t, file, link))
		check(t, os.Chmod(file, tt.file))
		check(t, os.Chmod(filepath.Dir(file), tt.dir))
		check(t, os.Chmod(top, tt.top))
		for _, path := range []string{file, link} {
			sourcetest.Equal(t, disk.Hidden(path), tt.want, path, tt)
		}
		check(t, os.Chmod(top, 0o755))
	}
	sourcetest.Equal(t, disk.Hidden(filepath.Join(t.TempDir(), "missing")), 0o077)
}

// Move removes a file that has taken the place of the one to be moved.
func TestMove(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	write(t, "good", from.Path("."), "file")
	info := sourcetest.Must(from.Lstat("file"))(t)
	check(t, disk.Move(from, "file", to, "moved", info))
	contains(t, to.Path("moved"), "good")
	for name, replace := range map[string]func() error{
		"file":      func() error { write(t, "evil", from.Path("."), "file"); return nil },
		"directory": func() error { write(t, "evil", from.Path("file"), "file"); return nil },
		"link":      func() error { return sourcetest.Symlink(t, to.Path("moved"), from.Path("file")) },
		"pipe":      func() error { return syscall.Mkfifo(from.Path("file"), 0o644) },
	} {
		check(t, replace())
		err := disk.Move(from, "file", to, "other", info)
		sourcetest.Expect(t, errors.Is(err, disk.ErrChanged) && strings.Contains(err.Error(), from.Path("file")), "%s: %v", name, err)
		sourcetest.Expect(t, !to.Exists("other"), "%s: it was left", name)
	}
	contains(t, to.Path("moved"), "good")
}

// Another user can put a directory instead of a new scratch directory before it is
// opened, where directories can be renamed by everybody.
func TestScratchOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	d := open(t, t.TempDir())
	for owner, want := range map[int]bool{0: true, stranger: false} {
		name := "run-" + strings.Repeat("A", 12)
		check(t, os.Mkdir(d.Path(name), 0o755))
		check(t, os.WriteFile(d.Path(name+"/~lock"), nil, 0o666))
		check(t, os.Chown(d.Path(name+"/~lock"), owner, -1))
		check(t, os.Chown(d.Path(name), owner, -1))
		s, err := d.Occupy(name)
		sourcetest.Expect(t, (s != nil) == want, "of user %d: got %v, %v", owner, s, err)
		if s != nil {
			check(t, s.Close())
			continue
		}
		strayed(t, "Scratch", err, d.Path(name))
		check(t, os.RemoveAll(d.Path(name)))
	}
}

// stranger is a user without permissions.
const stranger = 54321

func TestOwn(t *testing.T) {
	sourcetest.RequireModes(t)
	path, me := write(t, "text", t.TempDir(), "file"), os.Geteuid()
	for _, c := range []struct {
		mode         os.FileMode
		owner, group int
		want         bool
		dir          bool // result for a directory
	}{
		{0o644, me, stranger, true, true}, {0o600, me, stranger, true, true}, {0o444, me, stranger, true, true}, {0o755, me, stranger, true, true},
		{0o664, me, stranger, false, false}, {0o646, me, stranger, false, false}, {0o666, me, me, false, false}, {0o620, me, stranger, false, false},
		{0o664, me, me, true, true}, // the user's own group
		{0o777 | os.ModeSticky, me, stranger, false, true}, {0o777 | os.ModeSticky, stranger, stranger, false, false},
		{0o644, stranger, stranger, false, false}, {0o400, stranger, me, false, false},
	} {
		if (c.owner != me || c.group != os.Getegid()) && me != 0 {
			continue // only root can give files away
		}
		check(t, os.Chown(path, c.owner, c.group))
		check(t, os.Chmod(path, c.mode))
		info := sourcetest.Must(os.Stat(path))(t)
		sourcetest.Expect(t, disk.Own(info) == c.want, "%v of user %d and group %d: want %t", c.mode, c.owner, c.group, c.want)
		sourcetest.Expect(t, disk.OwnDir(info) == c.dir, "directory %v of user %d and group %d: want %t", c.mode, c.owner, c.group, c.dir)
	}
}

// hashed hashes the file at path.
func hashed(t *testing.T, path string) *disk.Hashed {
	t.Helper()
	f, info, err := disk.OpenFile(path)
	check(t, err)
	var seen strings.Builder
	h := sourcetest.Must(disk.HashOpen(t.Context(), f, info, &seen))(t)
	t.Cleanup(func() { h.Close() })
	data := sourcetest.ReadFile(t, path)
	sourcetest.Expect(t, h.Sum == sha256.Sum256(data) && seen.String() == string(data), "got %x", h.Sum)
	return h
}

// change writes text into a file in place, and resets its time.
func change(t *testing.T, path, text string, at int64) {
	t.Helper()
	before := sourcetest.Must(os.Stat(path))(t)
	f := sourcetest.Must(os.OpenFile(path, os.O_WRONLY, 0))(t)
	_, err := f.WriteAt([]byte(text), at)
	check(t, errors.Join(err, f.Close(), os.Chtimes(path, before.ModTime(), before.ModTime())))
}

const piece = 256 << 10 // see HashOpen

// A file that others may change reads as the bytes that were hashed, or not at all.
func TestHashed(t *testing.T) {
	sourcetest.RequireModes(t)
	for _, size := range []int{0, 1, 100, piece - 1, piece, piece + 1, 2*piece + 63, 3 * piece} {
		text := strings.Repeat("0123456789abcde\n", size/16+1)[:size]
		path := write(t, text, t.TempDir(), "file")
		for _, mode := range []os.FileMode{0o644, 0o666} {
			check(t, os.Chmod(path, mode))
			h := hashed(t, path)
			got, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<40))
			sourcetest.Expect(t, err == nil && string(got) == text, "%d bytes: read %d, %v", size, len(got), err)
			sourcetest.Must(h.Stat())(t)
			_, err = h.ReadAt(make([]byte, 1), int64(size))
			sourcetest.ErrorIs(t, err, io.EOF)
		}
		for _, at := range []int{0, size / 2, size - 1} {
			if size == 0 {
				break
			}
			h := hashed(t, path)
			change(t, path, "X", int64(at))
			_, err := io.ReadAll(io.NewSectionReader(h, 0, int64(size)))
			sourcetest.ErrorIs(t, err, disk.ErrChanged)
			got := make([]byte, 1)
			for i := range size {
				n, err := h.ReadAt(got, int64(i))
				if same := i/piece != at/piece; same != (err == nil) || n == 1 && got[0] != text[i] {
					t.Fatalf("%d bytes, changed at %d: byte %d is %q, %v", size, at, i, got, err)
				}
				if size > 200 {
					break
				}
			}
			change(t, path, text[at:at+1], int64(at))
			all, err := io.ReadAll(io.NewSectionReader(h, 0, int64(size)))
			sourcetest.Expect(t, err == nil && string(all) == text, "changed back: read %d, %v", len(all), err)
		}
	}
}

// Of an own file, only changes that show in its size or time are found. A file that gets
// shorter or longer is never read further than it was hashed.
func TestHashedOfOtherSize(t *testing.T) {
	for _, mode := range []os.FileMode{0o644, 0o666} {
		path := write(t, strings.Repeat("a", 2*piece), t.TempDir(), "file")
		check(t, os.Chmod(path, mode))
		h := hashed(t, path)
		check(t, os.Truncate(path, 3*piece))
		_, err := h.Stat()
		sourcetest.ErrorIs(t, err, disk.ErrChanged)
		got, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<40))
		sourcetest.Expect(t, err == nil && len(got) == 2*piece, "%v: read %d bytes, %v", mode, len(got), err)
		check(t, os.Truncate(path, piece))
		_, err = h.Stat()
		sourcetest.ErrorIs(t, err, disk.ErrChanged)
	}
}

// Hashing fails if the file gets shorter meanwhile, and if the context is canceled.
func TestHashOpenFails(t *testing.T) {
	path := write(t, "text", t.TempDir(), "file")
	f, info, err := disk.OpenFile(path)
	check(t, err)
	defer f.Close()
	check(t, os.Truncate(path, 3))
	_, err = disk.HashOpen(t.Context(), f, info, nil)
	sourcetest.ErrorIs(t, err, disk.ErrChanged)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = disk.HashOpen(ctx, f, info, nil)
	sourcetest.ErrorIs(t, err, context.Canceled)
}

// Sparse files state any size, and are not read.
func TestLimits(t *testing.T) {
	path := write(t, "", t.TempDir(), "file")
	err := os.Truncate(path, 3<<40)
	if disk.IsTooLarge(err) {
		t.Skipf("this file system has no such files: %v", err)
	}
	check(t, err)
	_, _, err = disk.HashFile(t.Context(), path, 1<<40)
	tooLarge(t, err, path)
	f, _, err := disk.OpenFile(path)
	check(t, err)
	defer f.Close()
	_, _, err = disk.Hash(t.Context(), f, 1<<20)
	tooLarge(t, err, path)

	dir := t.TempDir()
	for i := range 10_001 {
		check(t, os.Link(path, filepath.Join(dir, strconv.Itoa(i))))
	}
	_, err = disk.PrintTree(dir)
	sourcetest.Expect(t, err != nil, "a directory with too many files has a fingerprint")
}

func tooLarge(t *testing.T, err error, path string) {
	t.Helper()
	var large *disk.LimitError
	sourcetest.Expect(t, errors.As(err, &large) && large.Path == path, "got %v", err)
}

// left creates a temporary directory that a killed run has left.
func left(t *testing.T, name string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(os.TempDir(), name)
	check(t, os.MkdirAll(filepath.Join(path, "sub"), 0o755))
	check(t, os.WriteFile(filepath.Join(path, "sub", "file"), nil, 0o400))
	check(t, os.WriteFile(filepath.Join(path, "~lock"), nil, 0o644))
	check(t, os.Chmod(path, mode))
	return path
}

// A temporary directory of a run that has ended is removed by the next run. Others stay.
func TestTemporaryIsSwept(t *testing.T) {
	sourcetest.RequireModes(t)
	t.Setenv("TMPDIR", t.TempDir())
	left(t, "larder-x-AAAAAAAAAAAA", 0o700)
	stay := []string{
		left(t, "larder-x-BBBBBBBBBBBB", 0o777), // another user may have put something there
		left(t, "larder-x-AAAAAAAAAAA", 0o700),  // no name that larder gives
		left(t, "larder-AAAAAAAAAAAA", 0o700),   // another prefix
		filepath.Join(os.TempDir(), "larder-x-CCCCCCCCCCCC"),
		filepath.Join(os.TempDir(), "larder-x-DDDDDDDDDDDD"),
	}
	victim := left(t, "victim", 0o700)
	check(t, sourcetest.Symlink(t, victim, stay[3]))
	check(t, os.MkdirAll(stay[4], 0o700)) // without a lock file it may be of another program
	check(t, os.WriteFile(filepath.Join(stay[4], "file"), nil, 0o600))
	link := left(t, "larder-x-EEEEEEEEEEEE", 0o700)
	check(t, sourcetest.Symlink(t, victim, filepath.Join(link, "link")))
	locked := left(t, "larder-x-FFFFFFFFFFFF", 0o700)
	check(t, os.Remove(filepath.Join(locked, "~lock")))
	check(t, sourcetest.Symlink(t, filepath.Join(victim, "~lock"), filepath.Join(locked, "~lock")))
	stay = append(stay, victim, locked)
	if os.Geteuid() == 0 {
		others := left(t, "larder-x-GGGGGGGGGGGG", 0o700)
		check(t, os.Chown(others, 12345, 12345))
		stay = append(stay, others)
	}

	one := sourcetest.Must(disk.Temporary("larder-x-"))(t)
	two := sourcetest.Must(disk.Temporary("larder-x-"))(t)
	var want []string
	for _, path := range append(stay, one.Path("."), two.Path(".")) {
		want = append(want, filepath.Base(path))
	}
	slices.Sort(want)
	sourcetest.Equal(t, names(t, os.TempDir()), strings.Join(want, " "), "left are")
	sourcetest.Equal(t, names(t, victim), "sub ~lock", "the victim has")
	check(t, one.Close())
	check(t, two.Close())
}

// A directory for the next program stays until that program has ended. This test runs itself as a
// process that prepares one and then is replaced.
func TestTemporaryForNext(t *testing.T) {
	if os.Getenv("LARDER_TEST_NEXT") != "" {
		s := sourcetest.Must(disk.TemporaryForNext("larder-x-"))(t)
		check(t, syscall.Exec("/bin/sh", []string{"sh", "-c", "echo started; read line; exit 0", s.Path(".")}, os.Environ()))
	}
	requireOwn(t)
	t.Setenv("TMPDIR", t.TempDir())
	cmd := exec.Command(os.Args[0], "-test.run=^TestTemporaryForNext$")
	cmd.Env = append(os.Environ(), "LARDER_TEST_NEXT=1")
	stdin := sourcetest.Must(cmd.StdinPipe())(t)
	stdout := sourcetest.Must(cmd.StdoutPipe())(t)
	check(t, cmd.Start())
	started := make([]byte, len("started"))
	sourcetest.Must(stdout.Read(started))(t)
	sourcetest.Require(t, strings.HasPrefix(string(started), "started"), "the program wrote %q", started)

	sweep := func() string {
		s := sourcetest.Must(disk.Temporary("larder-x-"))(t)
		check(t, s.Close())
		return names(t, os.TempDir())
	}
	left := sweep()
	sourcetest.Expect(t, strings.HasPrefix(left, "larder-x-"), "while the program runs there are %q", left)
	check(t, stdin.Close())
	check(t, cmd.Wait())
	sourcetest.Equal(t, sweep(), "", "after the program has ended there are")
}

// Reals has the results of Real, also for links in the middle of a path, broken links and missing files.
func TestReals(t *testing.T) {
	dir := disk.Real(t.TempDir())
	sourcetest.Check(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	sourcetest.Check(t, os.Symlink("a", filepath.Join(dir, "link")))
	sourcetest.Check(t, os.Symlink(filepath.Join("..", "link"), filepath.Join(dir, "a", "up")))
	sourcetest.Check(t, os.Symlink("nowhere", filepath.Join(dir, "broken")))
	var reals disk.Reals
	for _, name := range []string{".", "a", "link", "link/b", "link/up/b/c/d", "a/up/up", "broken/b", "link/../a", "missing/b"} {
		path := dir + "/" + name
		sourcetest.Equal(t, reals.Of(path), disk.Real(path), name)
	}
	sourcetest.Equal(t, reals.Of(filepath.Join(dir, "link", "b")), filepath.Join(dir, "a", "b"), "link/b")
}
