package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
)

// These tests are in the package, so they can't use sourcetest, which imports it.

func openDir(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, ok bool, err error) {
	t.Helper()
	if !ok {
		t.Errorf("got error %v", err)
	}
}

// A file that another program has open for a moment is waited for. The error about one that stays open
// names it, also if it is below a directory.
func TestFilesInUse(t *testing.T) {
	root := t.TempDir()
	d := openDir(t, root)
	for name, change := range map[string]func() error{
		"remove":      func() error { return d.Remove("dir/file") },
		"remove tree": func() error { return d.RemoveTree("dir") },
		"rename": func() error {
			sub, err := d.Sub("dir")
			if err != nil {
				return err
			}
			defer sub.Close()
			return Rename(sub, "file", d, "other")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(root, "dir", "file")
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, nil, 0o644))
			opened, err := os.Open(path) // other programs may not remove the file
			must(t, err)
			defer opened.Close()

			patience = 300 * time.Millisecond
			err = change()
			expect(t, err != nil && strings.Count(err.Error(), path) == 1 && len(sources.Hints(err)) == 1, err)
			patience = 2 * time.Second
			time.AfterFunc(200*time.Millisecond, func() { opened.Close() })
			must(t, change())
			must(t, os.RemoveAll(filepath.Join(root, "other")))
		})
	}
}

// Files that Larder reads can be moved and removed meanwhile. Windows also replaces them, but Wine 8 doesn't.
func TestOpenFilesAreShared(t *testing.T) {
	d := openDir(t, t.TempDir())
	for _, name := range []string{"a", "b"} {
		must(t, d.WriteFile(name, []byte(name), Lazily))
	}
	opened, _, err := OpenFile(d.Path("b"))
	must(t, err)
	defer opened.Close()
	must(t, errors.Join(Rename(d, "b", d, "moved"), Rename(d, "a", d, "b"), d.Remove("moved")))
	text, err := io.ReadAll(opened)
	expect(t, string(text) == "b", err)
	text, err = os.ReadFile(d.Path("b"))
	expect(t, string(text) == "a", err)
	_, err = OpenAny(d.Path("c"))
	expect(t, errors.Is(err, fs.ErrNotExist) && strings.Count(err.Error(), d.Path("c")) == 1, err)
}

// Read-only files are removed, and replaced.
func TestReadOnlyFiles(t *testing.T) {
	d := openDir(t, t.TempDir())
	for _, name := range []string{"a", "b"} {
		must(t, os.WriteFile(d.Path(name), []byte(name), 0o444))
	}
	must(t, Rename(d, "a", d, "b"))
	text, err := os.ReadFile(d.Path("b"))
	expect(t, string(text) == "a", err)
	must(t, d.Remove("b"))
	expect(t, !d.Exists("b"), nil)
}

// Names that differ in case only are one name, and paths may be longer than 260 characters.
func TestNamesOnWindows(t *testing.T) {
	d := openDir(t, t.TempDir())
	must(t, d.WriteFile("File", nil, Lazily))
	expect(t, d.Exists("FILE"), nil)
	long := strings.Repeat(strings.Repeat("x", 100)+"/", 4) + "dir"
	sub, err := d.MakeSub(long)
	must(t, err)
	must(t, sub.WriteFile("file", []byte("text"), Lazily))
	resolved, err := Resolve(sub.Path("file"))
	expect(t, strings.EqualFold(resolved, sub.Path("file")), err)
	must(t, Rename(sub, "file", d, "moved"))
	sub.Close()
	first, _, _ := strings.Cut(long, "/")
	must(t, d.RemoveTree(first))
	expect(t, !d.Exists(first), nil)
}

// Where there can be no symbolic link, as under Wine, nothing is left.
func TestLinkToADirectory(t *testing.T) {
	d := openDir(t, t.TempDir())
	target := t.TempDir()
	must(t, os.WriteFile(filepath.Join(target, "file"), nil, 0o644))
	if err := d.Symlink(target, "link"); err != nil {
		expect(t, !d.Exists("link") && strings.Contains(err.Error(), d.Path("link")), err)
		return
	}
	info, err := d.Lstat("link")
	expect(t, err == nil && IsLink(info.Mode()), err)
	to, err := os.Readlink(d.Path("link"))
	expect(t, to == target, err)
	_, err = os.Stat(d.Path("link/file"))
	must(t, err)
	must(t, d.RemoveTree("link"))
	expect(t, !d.Exists("link"), nil)
	_, err = os.Stat(filepath.Join(target, "file"))
	must(t, err) // the target of the link stays
}
