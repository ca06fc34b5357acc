package archive_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
	"golang.org/x/mod/sumdb/dirhash"
)

// makeDir creates a directory with files, given as name and text.
func makeDir(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func symlink(t testing.TB, target, link string) {
	t.Helper()
	if err := sourcetest.Symlink(t, target, link); err != nil {
		t.Skip(err)
	}
}

var bothWays = map[string]func(t *testing.T, dir string) (sources.Contents, string, error){
	"Hash": func(t *testing.T, dir string) (sources.Contents, string, error) {
		c, err := archive.Hash(t.Context(), dir)
		resolved, _ := filepath.EvalSymlinks(dir)
		return c, resolved, err
	},
	"Copy": func(t *testing.T, dir string) (sources.Contents, string, error) {
		copied := t.TempDir()
		c, err := archive.Copy(t.Context(), dir, to(t, copied), archive.Limits{})
		return c, copied, err
	},
}

func TestDirectoryWithSymlinks(t *testing.T) {
	for name, take := range bothWays {
		t.Run(name, func(t *testing.T) {
			elsewhere := makeDir(t, map[string]string{"program": strings.Repeat("text", 1<<18)})
			dir := makeDir(t, map[string]string{"docs/a": "a", "docs-b": "b", "LICENSE": ""})
			symlink(t, filepath.Join(elsewhere, "program"), filepath.Join(dir, "terraform-provider-x"))
			link := filepath.Join(t.TempDir(), "link")
			symlink(t, dir, link)
			c, result, err := take(t, link)
			check(t, err)
			sourcetest.Expect(t, c.Size == 4<<18+2 && len(c.Files) == 4 && c.Files[0].Path == "LICENSE", "contents are %+v", c)
			for _, dir := range []string{dir, result} {
				want, err := dirhash.HashDir(dir, "", dirhash.Hash1)
				sourcetest.Expect(t, err == nil && string(c.H1) == want && c.ZipH1 == c.H1,
					"contents are %s, %s is %s, %v", c.H1, dir, want, err)
			}
		})
	}
}

// A symlink to a file is copied as a file, which is not readable by more users
// than the target of the link.
func TestCopyMakesFilesOfSymlinks(t *testing.T) {
	for source, want := range map[os.FileMode][2]os.FileMode{ // modes of the copies: writable, read-only
		0o600: {0o700, 0o500}, 0o640: {0o750, 0o550}, 0o644: {0o755, 0o555}, 0o755: {0o755, 0o555}, 0o400: {0o700, 0o500},
	} {
		src := sourcetest.PublicDir(t)
		check(t, os.WriteFile(filepath.Join(src, "program"), []byte("text"), 0o600))
		check(t, os.Chmod(filepath.Join(src, "program"), source))
		symlink(t, "program", filepath.Join(src, "terraform-provider-x"))
		for i, readOnly := range []bool{false, true} {
			dir := t.TempDir()
			dest := to(t, dir)
			dest.ReadOnly = readOnly
			if _, err := archive.Copy(t.Context(), src, dest, archive.Limits{}); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(filepath.Join(dir, "terraform-provider-x"))
			sourcetest.Expect(t, err == nil && info.Mode() == want[i],
				"of %v: got %v, want %v, %v", source, info.Mode(), want[i], err)
		}
	}
}

// A sparse file takes no space on disk. The directory of such an archive can
// state any number of entries, and reading it must not allocate memory for all
// of them.
func TestSparseArchiveTakesNoMemory(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "x.zip"))
	check(t, err)
	defer f.Close()
	const size = 7 << 30
	end := slices.Concat(
		[]byte("PK\x06\x06"), le(uint64(44)), make([]byte, 12), le(uint64(200e6)), le(uint64(200e6)), le(uint64(0)), le(uint64(0)),
		[]byte("PK\x06\x07"), make([]byte, 4), le(uint64(size-98)), make([]byte, 4),
		[]byte("PK\x05\x06"), make([]byte, 4), bytes.Repeat([]byte{0xff}, 12), make([]byte, 2))
	if _, err := f.WriteAt(end, size-int64(len(end))); err != nil {
		t.Skip(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = archive.Sum(t.Context(), f, size, archive.Limits{})
	runtime.ReadMemStats(&after)
	sourcetest.ErrorIs(t, err, archive.ErrLimit)
	taken := after.TotalAlloc - before.TotalAlloc
	sourcetest.Expect(t, taken <= 16<<20, "%d MiB were allocated", taken>>20)
	_, err = archive.Sum(t.Context(), f, 9<<30, archive.Limits{})
	sourcetest.ErrorIs(t, err, archive.ErrLimit)
}

func le(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func TestRejectedDirectories(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, dir string)
	}{
		{"symlink to a directory", func(t *testing.T, dir string) { symlink(t, t.TempDir(), filepath.Join(dir, "x")) }},
		{"symlink to nothing", func(t *testing.T, dir string) { symlink(t, "nothing", filepath.Join(dir, "x")) }},
		{"symlink to a device", func(t *testing.T, dir string) { symlink(t, os.DevNull, filepath.Join(dir, "x")) }},
		{"3 TB of nothing", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "x")
			check(t, os.WriteFile(path, nil, 0o600))
			if err := os.Truncate(path, 3<<40); err != nil {
				t.Skip(err)
			}
		}},
		{"newline", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "a\nb"), nil, 0o600); err != nil {
				t.Skip(err)
			}
		}},
	}
	for _, test := range tests {
		for way, take := range bothWays {
			t.Run(test.name+" "+way, func(t *testing.T) {
				dir := makeDir(t, map[string]string{"a": "a"})
				test.make(t, dir)
				_, _, err := take(t, dir)
				var entry *archive.EntryError
				sourcetest.Expect(t, errors.As(err, &entry), "got error %v", err)
			})
		}
	}
}

func TestHashOfNoDirectory(t *testing.T) {
	dir := makeDir(t, map[string]string{"file": ""})
	_, err := archive.Hash(t.Context(), filepath.Join(dir, "file"))
	sourcetest.Expect(t, err != nil, "a file: no error")
	_, err = archive.Hash(t.Context(), filepath.Join(dir, "nothing"))
	sourcetest.ErrorIs(t, err, fs.ErrNotExist, "nothing: got error")
}

func TestHashStopsWhenCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := archive.Hash(ctx, makeDir(t, map[string]string{"a": "a"}))
	sourcetest.ErrorIs(t, err, context.Canceled, "error")
}

func TestExecutable(t *testing.T) {
	tests := []struct {
		files string // separated by spaces
		want  string // empty means ErrNoExecutable
	}{
		{"terraform-provider-null", "terraform-provider-null"},
		{"terraform-provider-null.exe", "terraform-provider-null.exe"},
		{"README terraform-provider-null_v2.1.0_x5", "terraform-provider-null_v2.1.0_x5"},
		{"terraform-provider-null_v2.1.0_x5.exe", "terraform-provider-null_v2.1.0_x5.exe"},
		{"terraform-provider-null_v2.0.0 terraform-provider-null_v1.0.0", "terraform-provider-null_v1.0.0"},
		{"terraform-provider-null/x terraform-provider-null_v1", "terraform-provider-null_v1"},
		{"terraform-provider-null-extra", ""},
		{"terraform-null", ""},
		{"bin/terraform-provider-null", ""},
		{"Terraform-Provider-Null", ""},
	}
	for _, test := range tests {
		files := map[string]string{}
		for name := range strings.SplitSeq(test.files, " ") {
			files[name] = ""
		}
		got, err := archive.Executable(makeDir(t, files), "null")
		sourcetest.Expect(t, got == test.want && errors.Is(err, archive.ErrNoExecutable) == (test.want == ""),
			"%s: got %q, %v; want %q", test.files, got, err, test.want)
		sourcetest.Expect(t, test.want != "" || len(sources.Hints(err)) == 1, "%s: hints %q", test.files, sources.Hints(err))
	}
}
