package cachedir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// An entry that the caller rejects is moved away whole: a provider that runs from it
// keeps its file. Terraform links packages of an unpacked mirror into the cache: the mirror stays.
func TestPutReplaces(t *testing.T) {
	elsewhere := files{executable: "old"}
	mirror := elsewhere.unpack(t, t.TempDir())
	for name, lay := range map[string]func(t *testing.T, entry string){
		"other contents": func(t *testing.T, entry string) { files{executable: "old"}.unpack(t, entry) },
		"incomplete":     func(t *testing.T, entry string) { files{"LICENSE": "do as"}.unpack(t, entry) },
		"empty":          func(t *testing.T, entry string) { check(t, os.MkdirAll(entry, 0o755)) },
		"a file":         func(t *testing.T, entry string) { files{filepath.Base(entry): "x"}.unpack(t, filepath.Dir(entry)) },
		"dangling": func(t *testing.T, entry string) {
			check(t, os.MkdirAll(filepath.Dir(entry), 0o755))
			check(t, sourcetest.Symlink(t, "nowhere", entry))
		},
		"link to itself": func(t *testing.T, entry string) {
			check(t, os.MkdirAll(filepath.Dir(entry), 0o755))
			check(t, sourcetest.Symlink(t, filepath.Base(entry), entry))
		},
		"link into a mirror": func(t *testing.T, entry string) {
			check(t, os.MkdirAll(filepath.Dir(entry), 0o755))
			check(t, sourcetest.Symlink(t, mirror, entry))
		},
		"a directory behind a link in it": func(t *testing.T, entry string) {
			files{executable: "old"}.unpack(t, entry)
			check(t, sourcetest.Symlink(t, ".", filepath.Join(entry, "here")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			entry := filepath.Join(root, filepath.FromSlash(widget.Path()))
			lay(t, entry)
			var running *os.File
			if runtime.GOOS != "windows" { // there, the old file would stay until the program ends
				running, _ = os.Open(filepath.Join(entry, executable))
			}
			d := open(t, root, cachedir.Options{})
			put(t, d, widget, widgetFiles)
			sameTree(t, entry, widgetFiles)
			sameTree(t, mirror, elsewhere)
			nothingStaged(t, root)
			info, err := os.Lstat(entry)
			sourcetest.Expect(t, err == nil && info.IsDir(), "entry is %v, %v", info, err)
			if running == nil {
				return
			}
			defer running.Close()
			was := make([]byte, 3)
			_, err = running.Read(was)
			sourcetest.Expect(t, err == nil && string(was) == "old", "the running provider reads %q, %v", was, err)
		})
	}
}

// An entry with the same bytes stays in place, and gets a new record.
func TestPutKeepsEqualEntry(t *testing.T) {
	root := t.TempDir()
	entry := widgetFiles.unpack(t, filepath.Join(root, filepath.FromSlash(widget.Path())))
	before, err := os.Stat(filepath.Join(entry, executable))
	check(t, err)
	d := open(t, root, cachedir.Options{})
	put(t, d, widget, widgetFiles)
	after, err := os.Stat(filepath.Join(entry, executable))
	check(t, err)
	sourcetest.Expect(t, os.SameFile(before, after), "the entry was replaced")
	s, err := d.Get(context.Background(), widget)
	check(t, err)
	sourcetest.Expect(t, s.ZH != "" && s.Report.Verdict == sources.SelfSigned, "got %+v", s)
}

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o644))
	for _, path := range []string{file, filepath.Join(file, "cache")} {
		_, err := cachedir.Open(path, cachedir.Options{})
		var pathErr *fs.PathError
		sourcetest.Expect(t, errors.As(err, &pathErr) && len(sources.Hints(err)) != 0, "opening %s: %v", path, err)
	}
}
