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

// A file that another program has open for a moment is waited for. The error about one that stays open
// names it, also if it is below a directory.
func TestFilesInUse(t *testing.T) {
	root := t.TempDir()
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
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
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			check(os.MkdirAll(filepath.Dir(path), 0o755))
			check(os.WriteFile(path, nil, 0o644))
			opened, err := os.Open(path) // other programs may not remove the file
			check(err)
			defer opened.Close()

			patience = 300 * time.Millisecond
			err = change()
			if err == nil || strings.Count(err.Error(), path) != 1 || len(sources.Hints(err)) != 1 {
				t.Errorf("got %v with hints %q, want one that names %s once", err, sources.Hints(err), path)
			}
			patience = 2 * time.Second
			time.AfterFunc(200*time.Millisecond, func() { opened.Close() })
			check(change())
			check(os.RemoveAll(filepath.Join(root, "other")))
		})
	}
}

// Files that Larder reads can be moved and removed meanwhile. Windows also replaces them, but Wine 8 doesn't.
func TestOpenFilesAreShared(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"a", "b"} {
		if err := d.WriteFile(name, []byte(name), Lazily); err != nil {
			t.Fatal(err)
		}
	}
	opened, _, err := OpenFile(d.Path("b"))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := errors.Join(Rename(d, "b", d, "moved"), Rename(d, "a", d, "b"), d.Remove("moved")); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(opened); string(text) != "b" {
		t.Errorf("got %q, %v", text, err)
	}
	if text, err := os.ReadFile(d.Path("b")); string(text) != "a" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := OpenAny(d.Path("c")); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), d.Path("c")) != 1 {
		t.Errorf("got %v", err)
	}
}

// Read-only files are removed, and replaced.
func TestReadOnlyFiles(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(d.Path(name), []byte(name), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	if err := Rename(d, "a", d, "b"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(d.Path("b")); string(text) != "a" {
		t.Errorf("got %q, %v", text, err)
	}
	if err := d.Remove("b"); err != nil || d.Exists("b") {
		t.Errorf("it is left: %v", err)
	}
}

// Names that differ in case only are one name, and paths may be longer than 260 characters.
func TestNamesOnWindows(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.WriteFile("File", nil, Lazily); err != nil || !d.Exists("FILE") {
		t.Errorf("another case is another name: %v", err)
	}
	long := strings.Repeat(strings.Repeat("x", 100)+"/", 4) + "dir"
	sub, err := d.MakeSub(long)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.WriteFile("file", []byte("text"), Lazily); err != nil {
		t.Error(err)
	}
	if resolved, err := Resolve(sub.Path("file")); err != nil || !strings.EqualFold(resolved, sub.Path("file")) {
		t.Errorf("resolved is %s, %v", resolved, err)
	}
	if err := Rename(sub, "file", d, "moved"); err != nil {
		t.Error(err)
	}
	sub.Close()
	first, _, _ := strings.Cut(long, "/")
	if err := d.RemoveTree(first); err != nil || d.Exists(first) {
		t.Errorf("it is left: %v", err)
	}
}
