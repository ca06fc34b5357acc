package disk_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// names lists the names in a directory.
func names(t testing.TB, dir string) string {
	t.Helper()
	entries := sourcetest.Must(os.ReadDir(dir))(t)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func contains(t testing.TB, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	sourcetest.Expect(t, err == nil && string(got) == want, "%s: %q, %v, want %q", path, got, err, want)
}

// scratch creates a scratch directory that is closed when the test ends.
func scratch(t testing.TB, d *disk.Dir) *disk.Scratch {
	t.Helper()
	s := sourcetest.Must(d.Scratch("run-"))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestOpen(t *testing.T) {
	root := t.TempDir()
	file := write(t, "", root, "file")
	for _, path := range []string{file, filepath.Join(root, "missing")} {
		_, err := disk.Open(path)
		sourcetest.Expect(t, err != nil, "opened %s", path)
	}
	made := sourcetest.Must(disk.Make(filepath.Join(root, "a", "b")))(t)
	check(t, made.Close())
	check(t, sourcetest.Symlink(t, filepath.Join(root, "a"), filepath.Join(root, "link")))
	if d := open(t, filepath.Join(root, "link")); !d.Exists("b") || d.Exists("c") { // a link is allowed in the path that the user names
		t.Error("the link leads elsewhere")
	}
	t.Chdir(root)
	sourcetest.Equal(t, open(t, ".").Path("a/b"), filepath.Join(root, "a", "b"), "relative path")
	_, err := made.ReadDir()
	sourcetest.Expect(t, err != nil, "listed a closed directory")
	sourcetest.Expect(t, made.Sync() != nil, "synced a closed directory")
}

// TestErrorsNameThePath checks that every error contains the absolute path
// exactly once.
func TestErrorsNameThePath(t *testing.T) {
	root := t.TempDir()
	write(t, "", root, "dir", "file")
	d := open(t, root)
	sub := sourcetest.Must(d.Sub("dir"))(t)
	t.Cleanup(func() { sub.Close() })
	at := func(name string) string { return filepath.Join(root, "dir", name) }
	for path, err := range map[string]error{
		at("lstat"):   second(sub.Lstat("lstat")),
		at("deep"):    second(d.Lstat("dir/deep/lstat")),
		at("sub"):     second(sub.Sub("sub")),
		at("read"):    third(sub.ReadFile("read", 1)),
		at("touch"):   sub.Touch("touch", time.Now()),
		at("file"):    second(sub.Create("file", 0o644)),
		at("file/x"):  sub.Symlink("target", "file/x"),
		at("rename"):  disk.Rename(sub, "rename", sub, "other"),
		at("link"):    disk.Link(d, "dir/link", sub, "other"),
		at("no/file"): d.Remove("dir/no/file"),
	} {
		if path == at("no/file") {
			check(t, err) // removing a missing file is no error
			continue
		}
		sourcetest.Expect(t, err != nil && strings.Count(err.Error(), path) == 1, "%s: got %v", path, err)
	}
	_, err := d.Mkdir("dir")
	sourcetest.Expect(t, errors.Is(err, fs.ErrExist) && strings.Count(err.Error(), root) == 1, "Mkdir: %v", err)
	err = d.Remove("dir")
	sourcetest.Expect(t, err != nil && strings.Count(err.Error(), root) == 1, "Remove: %v", err)
}

func TestIsUnread(t *testing.T) {
	root := t.TempDir()
	write(t, "text", root, "file")
	failed := &fs.PathError{Op: "read", Path: "x", Err: syscall.EIO}
	for err, want := range map[error]bool{
		failed: true,
		fmt.Errorf("reading a record: %w", failed):            true,
		second(os.Open(filepath.Join(root, "missing"))):       false,
		second(os.Open(filepath.Join(root, "file", "below"))): false,
		third(disk.OpenFile(root)):                            false,
		second(disk.ReadFile(filepath.Join(root, "file"), 1)): false,
		errors.New("unexpected end of JSON input"):            false,
	} {
		got := disk.IsUnread(err)
		sourcetest.Expect(t, got == want, "%v: got %t", err, got)
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func TestStrayErrorsDescribeTheFile(t *testing.T) {
	root := t.TempDir()
	write(t, "", root, "file")
	check(t, sourcetest.Symlink(t, "elsewhere", filepath.Join(root, "link")))
	d := open(t, root)
	for name, want := range map[string]string{"file": "is a file", "link": "is a symbolic link to elsewhere"} {
		_, err := d.Sub(name)
		sourcetest.Expect(t, err != nil && strings.HasSuffix(err.Error(), name+" "+want) && len(sources.Hints(err)) == 1,
			"got %v, want %q", err, want)
	}
	check(t, os.Mkdir(filepath.Join(root, "dir"), 0o755))
	_, _, err := d.ReadFile("dir", 1)
	sourcetest.Expect(t, err != nil && strings.HasSuffix(err.Error(), "dir is a directory"), "got %v", err)
}

func TestFilesHaveTheirModeWhateverTheUmask(t *testing.T) {
	sourcetest.RequireModes(t)
	d := open(t, t.TempDir())
	for _, mode := range []fs.FileMode{0o444, 0o755, 0o666} {
		f := sourcetest.Must(d.Create(mode.String(), mode))(t)
		f.Close()
		info, err := d.Lstat(mode.String())
		sourcetest.Expect(t, err == nil && info.Mode() == mode, "got %v, %v, want %v", info.Mode(), err, mode)
	}
	_, err := d.Create("missing/file", 0o644)
	sourcetest.ErrorIs(t, err, fs.ErrNotExist)
}

func TestTemp(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	for _, commit := range []bool{false, true} {
		temp := sourcetest.Must(d.NewTemp("file"))(t)
		sourcetest.Must(temp.WriteString("text"))(t)
		if commit {
			check(t, temp.Commit("file"))
		}
		temp.Discard()
		want := map[bool]string{true: "file"}[commit]
		sourcetest.Expect(t, names(t, root) == want, "committed %t: left are %s", commit, names(t, root))
	}
	temp := sourcetest.Must(d.NewTemp("file"))(t)
	temp.Close()
	sourcetest.Expect(t, temp.Commit("file") != nil, "committed a closed file")
	temp.Discard()
	contains(t, filepath.Join(root, "file"), "text")
	sourcetest.Equal(t, names(t, root), "file", "left are")
	via := open(t, t.TempDir())
	check(t, d.WriteVia(via, "file", []byte("other"), disk.Lazily))
	contains(t, filepath.Join(root, "file"), "other")
	check(t, os.Mkdir(filepath.Join(root, "dir"), 0o755))
	sourcetest.Expect(t, d.WriteVia(via, "dir", nil, disk.Synced) != nil, "a file took the place of a directory")
	sourcetest.Equal(t, names(t, via.Path(".")), "", "left over")
	check(t, d.Touch("file", time.Unix(1e9, 0)))
	info, err := d.Lstat("file")
	sourcetest.Expect(t, err == nil && info.ModTime().Equal(time.Unix(1e9, 0)), "got %v, %v", info.ModTime(), err)
}

// requireOwn skips the test if all users can write to all files, as with ntfs-3g.
func requireOwn(t *testing.T) {
	t.Helper()
	info := sourcetest.Must(os.Stat(write(t, "", t.TempDir(), "file")))(t)
	if !disk.Own(info) {
		t.Skip("all users can write to files on this file system")
	}
}

func TestHash(t *testing.T) {
	path := write(t, "text", t.TempDir(), "file")
	sum, size, err := disk.HashFile(t.Context(), path, 4)
	sourcetest.Expect(t, err == nil && size == 4 && sum == sha256.Sum256([]byte("text")), "got %x, %d, %v", sum, size, err)
	_, _, err = disk.HashFile(t.Context(), path+"x", 4)
	sourcetest.ErrorIs(t, err, fs.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	endless := readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	_, _, err = disk.Hash(ctx, endless, 1<<62)
	sourcetest.ErrorIs(t, err, context.Canceled)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestLinks(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, "text", root, "dir", "file")
	check(t, sourcetest.Symlink(t, outside, filepath.Join(root, "out")))
	write(t, "text", outside, "file")
	d := open(t, root)
	check(t, disk.Link(d, "dir/file", d, "second"))
	one := sourcetest.Must(d.Lstat("dir/file"))(t)
	two := sourcetest.Must(d.Lstat("second"))(t)
	sourcetest.Expect(t, os.SameFile(one, two), "these are two files")
	sourcetest.ErrorIs(t, disk.Link(d, "dir/file", d, "second"), fs.ErrExist)
	strayed(t, "Link", disk.Link(d, "out/file", d, "third"), filepath.Join(root, "out"))
	check(t, d.Symlink("dir/file", "symlink"))
	target, err := os.Readlink(filepath.Join(root, "symlink"))
	sourcetest.Expect(t, err == nil && target == "dir/file", "got %s, %v", target, err)
	sourcetest.ErrorIs(t, d.Symlink("x", "symlink"), fs.ErrExist)
}

func TestRemove(t *testing.T) {
	root := t.TempDir()
	write(t, "", root, "a", "b", "c", "file")
	write(t, "", root, "a", "other")
	d := open(t, root)
	for _, name := range []string{"a/b/c/file", "a/b/c/file", "missing/file"} {
		check(t, d.Remove(name))
	}
	check(t, d.RemoveTree("missing"))
	check(t, d.RemoveEmpty("a/b/c/gone/deep"))
	sourcetest.Equal(t, names(t, filepath.Join(root, "a")), "other", "left are")
	check(t, d.RemoveEmpty("a/other")) // the file stays
	sourcetest.Equal(t, names(t, filepath.Join(root, "a")), "other", "left are")
	check(t, d.Remove("a/other"))
	check(t, d.RemoveEmpty("a"))
	sourcetest.Equal(t, names(t, root), "", "left are")
	check(t, d.RemoveEmpty("."))
}

func TestSyncTree(t *testing.T) {
	root := t.TempDir()
	write(t, "", root, "a", "b", "file")
	check(t, sourcetest.Symlink(t, "missing", filepath.Join(root, "a", "link")))
	check(t, sourcetest.Symlink(t, "b", filepath.Join(root, "a", "dirlink")))
	d := open(t, root)
	check(t, d.SyncTree(t.Context()))
	check(t, d.SyncDirs(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{d.SyncTree(ctx), d.SyncDirs(ctx)} {
		sourcetest.ErrorIs(t, err, context.Canceled)
	}
	check(t, d.Close())
	for _, err := range []error{d.SyncTree(t.Context()), d.SyncDirs(t.Context())} {
		sourcetest.Expect(t, errors.Is(err, fs.ErrClosed) || errors.Is(err, syscall.EBADF), "%v", err)
	}
}

// failing makes the renames to a name fail whose numbers are in turns.
func failing(t *testing.T, to string, turns ...int) {
	n := 0
	t.Cleanup(disk.FailRenames(func(_ *disk.Dir, _ string, _ *disk.Dir, name string) error {
		if name == to {
			n++
			if slices.Contains(turns, n) {
				return syscall.EIO
			}
		}
		return nil
	}))
}

// A replaced file that cannot be put back is kept, and the error contains its
// path.
func TestReplaceKeepsWhatItCannotPutBack(t *testing.T) {
	defer disk.WithoutExchange()()
	for _, stuck := range []bool{false, true} {
		root := t.TempDir()
		write(t, "old", root, "place", "file")
		d := open(t, root)
		s := sourcetest.Must(d.Scratch("run-"))(t)
		write(t, "new", s.Path("made"), "file")
		failing(t, "place", 1, 2) // the rename to the place, and the rename back
		if stuck {
			failing(t, "rescued-made.old0", 1)
		}
		err := replace(s, "made", d, "place")
		sourcetest.Require(t, errors.Is(err, syscall.EIO), "got %v", err)
		check(t, s.Close())
		d.Sweep("run-", time.Now(), func(error) {})
		_, at, _ := strings.Cut(err.Error(), "the old one is now at ")
		contains(t, filepath.Join(at, "file"), "old")
	}
}

// A failure between the two steps changes nothing, and a temporary failure is
// retried.
func TestReplaceSteps(t *testing.T) {
	defer disk.WithoutExchange()()
	for name, tt := range map[string]struct {
		there bool
		fail  func(t *testing.T)
		want  string // the contents of the place afterwards
	}{
		"aside fails":             {true, func(t *testing.T) { failing(t, "made.old0", 1) }, "old"},
		"there fails":             {true, func(t *testing.T) { failing(t, "place", 1, 3, 5) }, "old"},
		"there fails once":        {true, func(t *testing.T) { failing(t, "place", 1) }, "new"},
		"nothing to replace":      {false, func(*testing.T) {}, "new"},
		"new fails at first":      {false, func(t *testing.T) { failing(t, "place", 1) }, "new"},
		"new fails several times": {false, func(t *testing.T) { failing(t, "place", 1, 2, 3) }, "new"},
		"new fails always":        {false, func(t *testing.T) { failing(t, "place", 1, 2, 3, 4) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if tt.there {
				write(t, "old", root, "place", "file")
			}
			d := open(t, root)
			s := scratch(t, d)
			write(t, "new", s.Path("made"), "file")
			tt.fail(t)
			err := replace(s, "made", d, "place")
			sourcetest.Expect(t, (err == nil) == (tt.want == "new"), "got %v", err)
			got, _ := os.ReadFile(filepath.Join(root, "place", "file"))
			sourcetest.Equal(t, string(got), tt.want, "the place holds")
			check(t, s.Close())
			sourcetest.Equal(t, names(t, root), map[bool]string{true: "place"}[tt.want != ""], "left are")
		})
	}
}

func TestScratch(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	s := scratch(t, d)
	name := names(t, root)
	sourcetest.Expect(t, strings.HasPrefix(name, "run-"), "called %s", name)
	write(t, "", s.Path("old0"), "file")
	entries, err := s.ReadDir()
	sourcetest.Expect(t, err == nil && entries[len(entries)-1].Name() == "~lock", "the lock isn't removed last: %v, %v", entries, err)
	d.Sweep("run-", time.Now().Add(48*time.Hour), func(err error) { t.Error(err) })
	sourcetest.Require(t, d.Exists(filepath.Base(s.Path("."))), "a living run's directory was swept")
	check(t, s.Close())
	sourcetest.Equal(t, names(t, root), "", "left are")
	check(t, d.Close())
	_, err = d.Scratch("run-")
	sourcetest.Expect(t, err != nil, "created in a closed directory")
}

// Runs that start while other runs sweep keep their directories. The sweeps reach the
// directory through a link, so that they exclude the runs only by files, as processes do.
func TestScratchWhileOthersSweep(t *testing.T) {
	d := open(t, t.TempDir())
	other := d
	link := filepath.Join(t.TempDir(), "link")
	_ = os.Symlink(d.Path("."), link)
	if _, err := os.Lstat(link); err == nil { // Wine reports success, and creates nothing
		other = open(t, link)
	}
	done := make(chan struct{})
	var sweeps, runs sync.WaitGroup
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					other.Sweep("run-", time.Now(), func(error) {})
				}
			}
		})
	}
	for range 4 {
		runs.Go(func() {
			for range 100 {
				s, err := d.Scratch("run-")
				if err == nil {
					err = s.WriteFile("file", []byte("text"), disk.Lazily)
				}
				if err == nil {
					_, _, err = s.ReadFile("file", 10)
				}
				if err == nil {
					err = s.Close()
				}
				sourcetest.Equal(t, err, nil)
			}
		})
	}
	runs.Wait()
	close(done)
	sweeps.Wait()
	sourcetest.Equal(t, names(t, d.Path(".")), "", "left are")
}

func TestSweepWarns(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	check(t, os.MkdirAll(filepath.Join(root, "run-ODDAAAAAAAAA", "~lock"), 0o755))
	warned := 0
	d.Sweep("run-", time.Now(), func(error) { warned++ })
	sourcetest.Expect(t, warned == 1 && d.Exists("run-ODDAAAAAAAAA"),
		"warned %d times, left are %s", warned, names(t, root))
	check(t, d.Close())
	d.Sweep("run-", time.Now(), func(error) { warned++ })
	sourcetest.Expect(t, warned == 2, "warned %d times", warned)
}

func TestHolder(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	long := d.Lock("long")
	write(t, strings.Repeat("x", 500), root, "long")
	check(t, second(long.Try()))
	long.Announce(time.Now())
	h := long.Holder()
	sourcetest.Equal(t, h.PID, os.Getpid(), "a longer announcement stayed", h)
	l := d.Lock("lock")
	if h := l.Holder(); h != (disk.Holder{}) { // the lock file does not exist yet
		t.Errorf("held by %+v", h)
	}
	check(t, second(l.Try()))
	now := time.Now()
	l.Announce(now.Add(time.Hour))
	l.Announce(now)
	h = d.Lock("lock").Holder()
	sourcetest.Expect(t, h.PID == os.Getpid() && h.Since.Equal(now), "held by %+v", h)
	l.Unlock()
	l.Unlock() // does nothing
	for _, text := range []string{"", "x", "x{}garbage", "x" + strings.Repeat(" ", 5000) + `{"pid":1}`} {
		write(t, text, root, "lock")
		h := d.Lock("lock").Holder()
		sourcetest.Expect(t, h.PID == 0, "%.20q: held by %+v", text, h)
	}
	sourcetest.Equal(t, l.Path(), filepath.Join(root, "lock"))
	long.Unlock()
}

// Users other than the owner of a lock file can only read it.
func TestLockOnAReadOnlyFile(t *testing.T) {
	root := t.TempDir()
	check(t, os.Chmod(write(t, "", root, "lock"), 0o444))
	d := open(t, root)
	l := d.Lock("lock")
	ok, err := l.Try()
	sourcetest.Expect(t, ok && err == nil && l.Lockless == nil, "got %t, %v", ok, err)
	l.Unlock()
}

func TestLockInAMissingDirectory(t *testing.T) {
	d := open(t, t.TempDir())
	for _, existing := range []bool{false, true} {
		l := d.Lock("missing/lock")
		l.Existing = existing
		ok, err := l.Try()
		sourcetest.Expect(t, !ok && errors.Is(err, fs.ErrNotExist), "got %t, %v", ok, err)
	}
	// A failed attempt holds no lock.
	check(t, os.Mkdir(d.Path("missing"), 0o755))
	l := d.Lock("missing/lock")
	ok, err := l.Try()
	sourcetest.Expect(t, ok && err == nil, "got %t, %v", ok, err)
	l.Unlock()
}

func TestWait(t *testing.T) {
	tries, failed := 0, errors.New("failed")
	late := func() { t.Error("that was no long wait") }
	check(t, disk.Wait(t.Context(), func() (bool, error) { tries++; return tries == 3, nil }, late))
	sourcetest.Expect(t, tries == 3, "tried %d times", tries)
	sourcetest.ErrorIs(t, disk.Wait(t.Context(), func() (bool, error) { return false, failed }, late), failed)
	if testing.Short() {
		return
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	err := disk.Wait(ctx, func() (bool, error) { return false, nil }, func() { calls++; time.AfterFunc(100*time.Millisecond, func() { cancel(failed) }) })
	sourcetest.Expect(t, errors.Is(err, failed) && calls == 1, "got %v, late was called %d times", err, calls)
}

func TestExplain(t *testing.T) {
	for _, err := range []error{syscall.EIO, errors.New("x"), nil} {
		sourcetest.Equal(t, disk.Explain(err, "the mirror"), err)
	}
	for err, want := range fullDiskErrors {
		sourcetest.Equal(t, disk.IsFull(&fs.PathError{Op: "write", Path: "x", Err: err}), want, err)
		if !disk.IsFull(err) && !disk.IsTooLarge(err) {
			continue
		}
		hints := sources.Hints(disk.Explain(&fs.PathError{Op: "write", Path: "x", Err: err}, "the mirror"))
		if len(hints) != 1 || !strings.Contains(hints[0], "the mirror") || strings.Contains(hints[0], "exFAT") != disk.IsTooLarge(err) {
			t.Errorf("%v: got %q", err, hints)
		}
	}
}

// Replace names what it replaced, and a failure changes nothing. Files and links are replaced like directories, and
// links are not followed.
func TestReplace(t *testing.T) {
	for _, exchange := range []bool{true, false} {
		if !exchange {
			defer disk.WithoutExchange()()
		}
		root, outside := t.TempDir(), t.TempDir()
		canary := write(t, "canary", outside, "file")
		_ = os.Symlink(outside, filepath.Join(root, "link"))
		write(t, "old", root, "file")
		d := open(t, root)
		s := scratch(t, d)
		all := []string{"place", "place", "file"}
		if d.Exists("link") { // some file systems have no links
			all = append(all, "link")
		}
		for i, name := range all {
			made, text := fmt.Sprint("made", i), fmt.Sprint("text ", i)
			write(t, text, s.Path(made), "file")
			old := sourcetest.Must(s.Replace(made, d, name))(t)
			contains(t, filepath.Join(root, name, "file"), text)
			sourcetest.Expect(t, (old == "") == (i == 0), "exchange %t: replaced %q", exchange, old)
			if i == 1 {
				contains(t, filepath.Join(s.Path(old), "file"), "text 0")
			}
		}
		old, err := s.Replace("missing", d, "place")
		sourcetest.Expect(t, errors.Is(err, fs.ErrNotExist) && old == "", "replaced %q, %v", old, err)
		contains(t, filepath.Join(root, "place", "file"), "text 1")
		check(t, s.Close())
		contains(t, canary, "canary")
		slices.Sort(all)
		sourcetest.Equal(t, names(t, root), strings.Join(slices.Compact(all), " "), "left are")
	}
}

func TestScratchElsewhere(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	t.Setenv("TMP", root)
	d := open(t, root)
	below := sourcetest.Must(d.MakeSub("a/b"))(t)
	in, err := below.Scratch("run-")
	check(t, errors.Join(err, below.Close()))
	sourcetest.Equal(t, names(t, filepath.Join(root, "a", "b")), filepath.Base(in.Path(".")), "there are")
	check(t, in.Close())
	temporary := sourcetest.Must(disk.Temporary("run-"))(t)
	info := sourcetest.Must(os.Stat(temporary.Path(".")))(t)
	if filepath.Dir(temporary.Path(".")) != root || sourcetest.KeepsModes(t) && info.Mode().Perm() != 0o700 {
		t.Errorf("%s has mode %v", temporary.Path("."), info.Mode())
	}
	check(t, temporary.Close())
	sourcetest.Equal(t, names(t, root)+names(t, filepath.Join(root, "a", "b")), "a", "left are")
	t.Setenv("TMPDIR", filepath.Join(root, "missing"))
	t.Setenv("TMP", filepath.Join(root, "missing"))
	_, err = disk.Temporary("run-")
	sourcetest.Expect(t, err != nil, "created in a missing directory")
}

func TestAlive(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	s := scratch(t, d)
	write(t, "", root, "dead", "~lock")
	check(t, os.Mkdir(filepath.Join(root, "none"), 0o755))
	for name, want := range map[string]bool{filepath.Base(s.Path(".")): true, "dead": false, "none": false, "missing": false} {
		sourcetest.Equal(t, d.Alive(name, time.Now()), want, name)
	}
}

func TestSeal(t *testing.T) {
	sourcetest.RequireModes(t)
	root := t.TempDir()
	outside := write(t, "", t.TempDir(), "file")
	check(t, os.Chmod(write(t, "", root, "dir", "run"), 0o755))
	check(t, sourcetest.Symlink(t, outside, filepath.Join(root, "link")))
	d := open(t, root)
	for _, name := range []string{"dir/run", "dir", "link", "missing/file"} {
		d.Seal(name)
	}
	for path, want := range map[string]fs.FileMode{filepath.Join(root, "dir", "run"): 0o555, outside: 0o644, filepath.Join(root, "dir"): 0o755} {
		info, err := os.Stat(path)
		sourcetest.Expect(t, err == nil && info.Mode().Perm() == want, "%s: %v, %v", path, info.Mode(), err)
	}
}

func TestWritable(t *testing.T) {
	d := open(t, t.TempDir())
	check(t, d.Writable())
	sourcetest.Equal(t, names(t, d.Path(".")), "", "left are")
	if disk.IgnoresModes() || !sourcetest.KeepsModes(t) {
		return
	}
	check(t, os.Chmod(d.Path("."), 0o555))
	sourcetest.ErrorIs(t, d.Writable(), fs.ErrPermission)
}

// This is the contract of CloneFile on every system: FICLONE on Linux, clonefile on macOS. The time of the last change
// and the extended attributes of the clone are not part of it.
func TestCloneFile(t *testing.T) {
	root := t.TempDir()
	path := write(t, "text", root, "file")
	check(t, os.Chmod(path, 0o755))
	from := sourcetest.Must(os.Open(path))(t)
	defer from.Close()
	d := open(t, root)
	err := d.CloneFile("clone", from, 0o644)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this file system cannot share bytes")
	}
	check(t, err)

	clone := filepath.Join(root, "clone")
	contains(t, clone, "text")
	info := sourcetest.Must(os.Lstat(clone))(t)
	sourcetest.Equal(t, info.Mode(), fs.FileMode(0o644))

	// Neither file changes with the other.
	check(t, os.WriteFile(clone, []byte("TEXT of the clone"), 0))
	contains(t, path, "text")
	check(t, os.WriteFile(path, []byte("changed"), 0))
	contains(t, clone, "TEXT of the clone")

	// It replaces nothing, and follows no link.
	check(t, sourcetest.Symlink(t, filepath.Join(root, "missing"), filepath.Join(root, "link")))
	for _, name := range []string{"clone", "link"} {
		sourcetest.ErrorIs(t, d.CloneFile(name, from, 0o644), fs.ErrExist, name)
	}
	contains(t, clone, "TEXT of the clone")
	sourcetest.Expect(t, !d.Exists("missing"), "created through a link")
}

// No directory is created below a file, and the error names the file.
func TestMakeBelowAFile(t *testing.T) {
	path := write(t, "", t.TempDir(), "file")
	for _, below := range []string{"", "dir", "dir/dir"} {
		_, err := disk.Make(filepath.Join(path, below))
		sourcetest.Expect(t, errors.Is(err, syscall.ENOTDIR) && strings.Contains(err.Error(), path+": "), "%s: got %v", below, err)
	}
}
