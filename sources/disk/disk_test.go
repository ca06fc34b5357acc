package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

func open(t testing.TB, path string) *disk.Dir {
	t.Helper()
	d := sourcetest.Must(disk.Open(path))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func write(t testing.TB, text string, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// strayed checks that err is a StrayError with this path.
func strayed(t testing.TB, what string, err error, path string) {
	t.Helper()
	var e *disk.StrayError
	sourcetest.Expect(t, errors.As(err, &e) && e.Path == path, "%s: got %v, want an error about %s", what, err, path)
}

// TestLinksAreNotFollowed checks that Larder refuses a link instead of a directory or
// file, even if it points inside, and that its target does not
// change.
func TestLinksAreNotFollowed(t *testing.T) {
	for name, target := range map[string]func(root, outside string) string{
		"outside": func(_, outside string) string { return outside },
		"inside":  func(root, _ string) string { return filepath.Join(root, "inside") },
		"nowhere": func(root, _ string) string { return filepath.Join(root, "nowhere") },
	} {
		t.Run(name, func(t *testing.T) {
			root, outside := t.TempDir(), t.TempDir()
			canary := write(t, "canary", outside, "sub", "file")
			inside := write(t, "canary", root, "inside", "sub", "file")
			link := filepath.Join(root, "link")
			check(t, sourcetest.Symlink(t, target(root, outside), link))
			d := open(t, root)
			for what, act := range map[string]func() error{
				"Sub":         func() error { _, err := d.Sub("link"); return err },
				"Sub below":   func() error { _, err := d.Sub("link/sub"); return err },
				"MakeSub":     func() error { _, err := d.MakeSub("link/new"); return err },
				"ReadFile":    func() error { _, _, err := d.ReadFile("link/sub/file", 10); return err },
				"read link":   func() error { _, _, err := d.ReadFile("link", 10); return err },
				"EditFile":    func() error { _, err := d.EditFile("link/sub/file"); return err },
				"Create":      func() error { _, err := d.Create("link/new", 0o644); return err },
				"Remove":      func() error { return d.Remove("link/sub/file") },
				"RemoveEmpty": func() error { return d.RemoveEmpty("link/sub/none") },
				"Touch":       func() error { return d.Touch("link/sub/file", time.Now()) },
				"CheckDirs":   func() error { return d.CheckDirs("missing", "inside", "link") },
				"Lock":        func() error { _, err := d.Lock("link/lock").Try(); return err },
				"lock link":   func() error { _, err := d.Lock("link").Try(); return err },
			} {
				strayed(t, what, act(), link)
			}
			check(t, d.RemoveTree("link"))
			for _, path := range []string{canary, inside} {
				contains(t, path, "canary")
			}
		})
	}
}

func TestRemoveTreeFollowsNoLinkWithin(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	canary := write(t, "canary", outside, "file")
	write(t, "", root, "tree", "a", "b")
	check(t, sourcetest.Symlink(t, outside, filepath.Join(root, "tree", "a", "link")))
	check(t, open(t, root).RemoveTree("tree"))
	_, err := os.Lstat(filepath.Join(root, "tree"))
	sourcetest.ErrorIs(t, err, fs.ErrNotExist, "the tree is still there")
	contains(t, canary, "canary")
}

func TestNamesStayBelow(t *testing.T) {
	d := open(t, t.TempDir())
	for _, name := range []string{"", ".", "..", "../x", "/x", "a/../x", "a//b"} {
		_, err := d.MakeSub(name)
		sourcetest.Expect(t, err != nil, "MakeSub(%q) succeeded", name)
		_, _, err = d.ReadFile(name, 1)
		sourcetest.Expect(t, err != nil, "ReadFile(%q) succeeded", name)
	}
}

func TestReadFileHasALimit(t *testing.T) {
	root := t.TempDir()
	path := write(t, "12345", root, "file")
	for limit, ok := range map[int64]bool{4: false, 5: true} {
		_, _, err := open(t, root).ReadFile("file", limit)
		_, byPath := disk.ReadFile(path, limit)
		for _, err := range []error{err, byPath} {
			var tooLong *disk.LimitError
			sourcetest.Expect(t, ok == (err == nil) && (ok || errors.As(err, &tooLong)), "limit %d: %v", limit, err)
		}
	}
}

func TestWriteFileIsAtomic(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	for _, text := range []string{"first", "second"} {
		check(t, d.WriteFile("file", []byte(text), disk.Synced))
		contains(t, filepath.Join(root, "file"), text)
	}
	// A directory is not replaced, and no temporary file is left.
	check(t, os.Mkdir(filepath.Join(root, "dir"), 0o755))
	sourcetest.Expect(t, d.WriteFile("dir", nil, disk.Lazily) != nil, "a file took the place of a directory")
	sourcetest.Equal(t, names(t, root), "dir file", "left over")
	// A link is replaced.
	outside := write(t, "canary", t.TempDir(), "file")
	link := filepath.Join(root, "link")
	check(t, sourcetest.Symlink(t, outside, link))
	check(t, disk.WriteFile(link, []byte("new"), disk.Lazily))
	contains(t, outside, "canary")
}

// TestSweep checks that a sweep removes only directories of runs that have
// ended.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	living := sourcetest.Must(d.Scratch("run-"))(t)
	write(t, "", root, "run-DEADAAAAAAAA", "~lock")
	write(t, "", root, "run-DEADAAAAAAAA", "deep", "file")
	check(t, os.Mkdir(filepath.Join(root, "run-EMPTYAAAAAAA"), 0o755))
	write(t, "", root, "run-UNLOCKEDAAAA", "file")
	write(t, "", root, "run-person's", "~lock")
	write(t, "", root, "other", "lock")
	write(t, "", root, "run-FILEAAAAAAAA")
	d.Sweep("run-", time.Now(), func(err error) { t.Error(err) })
	want := []string{"other", filepath.Base(living.Path(".")), "run-FILEAAAAAAAA", "run-UNLOCKEDAAAA", "run-person's"}
	slices.Sort(want)
	sourcetest.Equal(t, names(t, root), strings.Join(want, " "), "left are")
	check(t, living.Close())
}

func TestLock(t *testing.T) {
	d := open(t, t.TempDir())
	first, second := d.Lock("lock"), d.Lock("lock")
	take := func(l *disk.Lock, want bool, try func(*disk.Lock) (bool, error)) {
		t.Helper()
		ok := sourcetest.Must(try(l))(t)
		sourcetest.Equal(t, ok, want)
	}
	take(first, true, (*disk.Lock).Try)
	first.Announce(time.Now())
	h := second.Holder()
	sourcetest.Equal(t, h.PID, os.Getpid(), "held by", h)
	take(second, false, (*disk.Lock).Try)
	take(second, false, (*disk.Lock).TryShared)
	first.Unlock()
	take(second, true, (*disk.Lock).TryShared)
	take(first, true, (*disk.Lock).TryShared)
	take(d.Lock("lock"), false, (*disk.Lock).Try)
	first.Unlock()
	second.Unlock()
	missing := d.Lock("missing")
	missing.Existing = true
	_, err := missing.Try()
	sourcetest.Expect(t, errors.Is(err, fs.ErrNotExist) && !d.Exists("missing"), "got %v", err)
}

func replace(s *disk.Scratch, made string, in *disk.Dir, name string) error {
	_, err := s.Replace(made, in, name)
	return err
}

// Errors of files and directories have their paths, however they were opened.
func TestOpenFilesHaveTheirPaths(t *testing.T) {
	root := t.TempDir()
	path := write(t, "text", root, "a", "b", "file")
	d := open(t, root)
	sub := sourcetest.Must(d.Sub("a/b"))(t)
	defer sub.Close()
	for name, in := range map[string]*disk.Dir{"a/b/file": d, "file": sub} {
		f, _, err := in.OpenFile(name)
		check(t, err)
		check(t, f.Close())
		sourcetest.Equal(t, f.Name(), path, name)
		made := sourcetest.Must(in.Create(name+".new", 0o644))(t)
		check(t, errors.Join(made.Close(), os.Remove(path+".new")))
		sourcetest.Equal(t, made.Name(), path+".new", name)
		_, err = in.Lstat(name + ".missing")
		var failed *fs.PathError
		sourcetest.Expect(t, errors.As(err, &failed) && failed.Path == path+".missing", "%v", err)
	}
}

// A write beside the user's files removes what killed runs have left there, and nothing else.
func TestWriteFileRemovesAbandonedFiles(t *testing.T) {
	dir, long := t.TempDir(), time.Now().Add(-2*disk.Abandoned)
	const left, running = ".a.hcl.ABCDEFGHIJKLMNOPQRSTUVWXYZ", ".a.hcl.ABCDEFGHIJKLMNOPQRSTUVWXY2"
	kept := []string{".a.hcl.swp", ".a.hcl.01010101010101010101010101", ".b.hcl.ABCDEFGHIJKLMNOPQRSTUVWXYZ", running}
	for _, name := range append(slices.Clone(kept), left) {
		path := write(t, "text", dir, name)
		if name != running {
			check(t, os.Chtimes(path, long, long))
		}
	}
	check(t, disk.WriteFile(filepath.Join(dir, "a.hcl"), []byte("new"), disk.Lazily))
	for _, name := range append(kept, "a.hcl") {
		_, err := os.Lstat(filepath.Join(dir, name))
		sourcetest.Expect(t, err == nil, "%s: %v", name, err)
	}
	_, err := os.Lstat(filepath.Join(dir, left))
	sourcetest.ErrorIs(t, err, os.ErrNotExist, left)
}

// The identity of a file stays while it is read, renamed and, if there is a birth time,
// linked. A file that takes its place has another one, even with the same inode, size
// and modification time.
func TestIdentify(t *testing.T) {
	path := write(t, "text", t.TempDir(), "file")
	identify := func() (disk.Identity, string) {
		t.Helper()
		check(t, os.Chtimes(path, time.Unix(1e9, 0), time.Unix(1e9, 0)))
		info := sourcetest.Must(os.Stat(path))(t)
		return disk.Identify(path, info), disk.Print(path, info)
	}
	before, first := identify()
	sourcetest.Require(t, before.Bound() && before.Inode != 0, "%+v", before)
	time.Sleep(20 * time.Millisecond) // more than a tick of the file system's clock
	contains(t, path, "text")
	check(t, sourcetest.Link(t, path, path+".link"))
	check(t, os.Remove(path))
	check(t, os.Rename(path+".link", path))
	linked, _ := identify()
	linked.Changed = before.Changed
	sourcetest.Equal(t, linked, before)

	check(t, os.Remove(path))
	write(t, "text", path)
	other, second := identify()
	other.Inode, linked.Inode = 0, 0
	sourcetest.Expect(t, other != linked && second != first, "a restored file has the identity %+v", other)
}

// The file system of a missing file is that of the nearest directory above it.
func TestMount(t *testing.T) {
	dir := t.TempDir()
	sourcetest.Equal(t, disk.Mount(filepath.Join(dir, "a", "b")), disk.Mount(dir))
	sourcetest.Equal(t, disk.Existing(filepath.Join(write(t, "text", dir, "file"), "below")), filepath.Join(dir, "file"))
	if runtime.GOOS == "linux" {
		sourcetest.Equal(t, disk.Mount("/proc/self"), "/proc")
	}
}
