package disk_test

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
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A file that another program has open for a moment is waited for. The error about one that stays open
// names it, also if it is below a directory.
func TestFilesInUse(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	for name, change := range map[string]func() error{
		"remove":      func() error { return d.Remove("dir/file") },
		"remove tree": func() error { return d.RemoveTree("dir") },
		"rename": func() error {
			sub, err := d.Sub("dir")
			if err != nil {
				return err
			}
			defer sub.Close()
			return disk.Rename(sub, "file", d, "other")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(root, "dir", "file")
			check(t, os.MkdirAll(filepath.Dir(path), 0o755))
			check(t, os.WriteFile(path, nil, 0o644))
			opened, err := os.Open(path) // other programs may not remove the file
			check(t, err)
			defer opened.Close()

			impatient := disk.WithPatience(300 * time.Millisecond)
			err = change()
			sourcetest.Expect(t, err != nil && strings.Count(err.Error(), path) == 1 && len(sources.Hints(err)) == 1, "got error %v", err)
			impatient()
			time.AfterFunc(200*time.Millisecond, func() { opened.Close() })
			check(t, change())
			check(t, os.RemoveAll(filepath.Join(root, "other")))
		})
	}
}

// Files that Larder reads can be moved and removed meanwhile. Windows also replaces them, but Wine 8 doesn't.
func TestOpenFilesAreShared(t *testing.T) {
	d := open(t, t.TempDir())
	for _, name := range []string{"a", "b"} {
		check(t, d.WriteFile(name, []byte(name), disk.Lazily))
	}
	opened, _, err := disk.OpenFile(d.Path("b"))
	check(t, err)
	defer opened.Close()
	check(t, errors.Join(disk.Rename(d, "b", d, "moved"), disk.Rename(d, "a", d, "b"), d.Remove("moved")))
	text, err := io.ReadAll(opened)
	sourcetest.Expect(t, string(text) == "b", "got error %v", err)
	text, err = os.ReadFile(d.Path("b"))
	sourcetest.Expect(t, string(text) == "a", "got error %v", err)
	_, err = disk.OpenAny(d.Path("c"))
	sourcetest.Expect(t, errors.Is(err, fs.ErrNotExist) && strings.Count(err.Error(), d.Path("c")) == 1, "got error %v", err)
}

// Read-only files are removed, and replaced.
func TestReadOnlyFiles(t *testing.T) {
	d := open(t, t.TempDir())
	for _, name := range []string{"a", "b"} {
		check(t, os.WriteFile(d.Path(name), []byte(name), 0o444))
	}
	check(t, disk.Rename(d, "a", d, "b"))
	text, err := os.ReadFile(d.Path("b"))
	sourcetest.Expect(t, string(text) == "a", "got error %v", err)
	check(t, d.Remove("b"))
	sourcetest.Expect(t, !d.Exists("b"), "got error %v", nil)
}

// Names that differ in case only are one name, and paths may be longer than 260 characters.
func TestNamesOnWindows(t *testing.T) {
	d := open(t, t.TempDir())
	check(t, d.WriteFile("File", nil, disk.Lazily))
	sourcetest.Expect(t, d.Exists("FILE"), "got error %v", nil)
	long := strings.Repeat(strings.Repeat("x", 100)+"/", 4) + "dir"
	sub := sourcetest.Must(d.MakeSub(long))(t)
	check(t, sub.WriteFile("file", []byte("text"), disk.Lazily))
	resolved, err := disk.Resolve(sub.Path("file"))
	sourcetest.Expect(t, strings.EqualFold(resolved, sub.Path("file")), "got error %v", err)
	check(t, disk.Rename(sub, "file", d, "moved"))
	sub.Close()
	first, _, _ := strings.Cut(long, "/")
	check(t, d.RemoveTree(first))
	sourcetest.Expect(t, !d.Exists(first), "got error %v", nil)
}

// Where there can be no symbolic link, as under Wine, nothing is left.
func TestLinkToADirectory(t *testing.T) {
	d := open(t, t.TempDir())
	target := t.TempDir()
	check(t, os.WriteFile(filepath.Join(target, "file"), nil, 0o644))
	if err := d.Symlink(target, "link"); err != nil {
		sourcetest.Expect(t, !d.Exists("link") && strings.Contains(err.Error(), d.Path("link")), "got error %v", err)
		return
	}
	info, err := d.Lstat("link")
	sourcetest.Expect(t, err == nil && disk.IsLink(info.Mode()), "got error %v", err)
	to, err := os.Readlink(d.Path("link"))
	sourcetest.Expect(t, to == target, "got error %v", err)
	sourcetest.Must(os.Stat(d.Path("link/file")))(t)
	check(t, d.RemoveTree("link"))
	sourcetest.Expect(t, !d.Exists("link"), "got error %v", nil)
	sourcetest.Must(os.Stat(filepath.Join(target, "file")))(t) // the target of the link stays
}
