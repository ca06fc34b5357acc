package archive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// An item is an entry of a test archive. A name that ends in "/" is a
// directory.
type item struct {
	name, text string
	mode       fs.FileMode // 0 means none in the archive
	method     uint16
}

func file(name, text string) item { return item{name: name, text: text, method: zip.Deflate} }

func makeZip(t testing.TB, items ...item) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, it := range items {
		h := &zip.FileHeader{Name: it.name, Method: it.method}
		if it.mode != 0 {
			h.SetMode(it.mode)
		}
		f := sourcetest.Must(w.CreateHeader(h))(t)
		if _, err := f.Write([]byte(it.text)); err != nil && it.text != "" {
			t.Fatal(err)
		}
	}
	check(t, w.Close())
	return out.Bytes()
}

func unpack(t testing.TB, archived []byte) (string, sources.Contents, error) {
	t.Helper()
	dir := t.TempDir()
	c, err := archive.Unpack(context.Background(), bytes.NewReader(archived), int64(len(archived)), to(t, dir))
	return dir, c, err
}

func TestKnownHashes(t *testing.T) {
	const (
		single = "h1:AKlMjWv60ocfqoVKFtoTku0Arr+AbCwgMKeoW/3K9EA="
		double = "h1:/eTekmnqbgk077x7iUexSbnRyPo5sDvMeNeN0rGIFHc="
	)
	hello, license := file("terraform-provider-foo", "hello\n"), file("sub/LICENSE", "x")
	tests := []struct {
		name      string
		items     []item
		h1, zipH1 sources.Hash
	}{
		{"one file", []item{hello}, single, single},
		{"two files", []item{hello, license}, double, double},
		{"a directory", []item{hello, {name: "sub/"}, license}, double, "h1:OKjWqeNEuacfLTi5m6NKOaB4TTLnRm4R0gTQMMgYPWM="},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir, c, err := unpack(t, makeZip(t, test.items...))
			check(t, err)
			sourcetest.Expect(t, c.H1 == test.h1 && c.ZipH1 == test.zipH1,
				"got %s and %s, want %s and %s", c.H1, c.ZipH1, test.h1, test.zipH1)
			if d, err := archive.Hash(context.Background(), dir); err != nil || d.H1 != test.h1 || d.ZipH1 != test.h1 {
				t.Errorf("the directory hashes to %s and %s, %v", d.H1, d.ZipH1, err)
			}
		})
	}
}

func TestHashOfNothing(t *testing.T) {
	c, err := archive.Hash(context.Background(), t.TempDir())
	sourcetest.Expect(t, err == nil && c.H1 == "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "got %s, %v", c.H1, err)
}

// The hashes are equal to those of the reference implementation.
func TestHashesAgreeWithDirhash(t *testing.T) {
	archived := makeZip(t, file("terraform-provider-x_v1", strings.Repeat("provider", 1<<17)), item{name: "docs/"},
		file("docs/b", ""), file("docs/a/x", "1"), item{name: "LICENSE", text: "stored"}, file("docs-a", "2"))
	dir, c, err := unpack(t, archived)
	check(t, err)
	want, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	sourcetest.Expect(t, err == nil && string(c.H1) == want, "contents are %s, the directory is %s, %v", c.H1, want, err)
	want, err = dirhash.HashZip(written(t, archived), dirhash.Hash1)
	sourcetest.Expect(t, err == nil && string(c.ZipH1) == want, "the archive is %s and should be %s, %v", c.ZipH1, want, err)
}

var check = sourcetest.Check

// to returns the directory dir as a destination.
func to(t testing.TB, dir string) archive.Dest {
	t.Helper()
	d := sourcetest.Must(disk.Open(dir))(t)
	t.Cleanup(func() { d.Close() })
	return archive.Dest{Dir: d}
}

// What the usual programs write is recognized, and nothing else.
func TestCompression(t *testing.T) {
	for _, program := range []string{"zstd", "gzip", "xz", "bzip2", "lz4"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("no %s", program)
			continue
		}
		cmd := exec.Command(program, "-c")
		cmd.Stdin = strings.NewReader("a file")
		out := sourcetest.Must(cmd.Output())(t)
		name, command := archive.Compression(out)
		sourcetest.Equal(t, name+" by "+command, program+" by "+program+" -dc", "what "+program+" writes")
	}
	var zipped bytes.Buffer
	w := zip.NewWriter(&zipped)
	sourcetest.Must(w.Create("file"))(t)
	sourcetest.Check(t, w.Close())
	name, command := archive.Compression(zipped.Bytes())
	sourcetest.Equal(t, name+" by "+command, "zip by unzip -p", "a zip")
	for _, plain := range []string{"", "\x28\xb5", "manifest.json", "{", "BZ", "PK\x05\x06", "\x00\x00\x00\x00"} {
		name, command := archive.Compression([]byte(plain))
		sourcetest.Equal(t, name+command, "", "%q", plain)
	}
}

// arriving returns files given as "PATH" or "PATH=TEXT".
func arriving(files ...string) sources.Files {
	return func(yield func(sources.Incoming, error) bool) {
		for _, f := range files {
			path, text, _ := strings.Cut(f, "=")
			if !yield(sources.Incoming{Path: path, Data: strings.NewReader(text)}, nil) {
				return
			}
		}
	}
}

func TestReceive(t *testing.T) {
	files := []string{"terraform-provider-x=" + strings.Repeat("text", 1<<18), "docs/a=a", "docs-b=b", "LICENSE="}
	dir := t.TempDir()
	got := sourcetest.Must(archive.Receive(t.Context(), arriving(files...), to(t, dir)))(t)
	want := sourcetest.Must(archive.Hash(t.Context(), dir))(t)
	hashed, err := archive.Receive(t.Context(), arriving(files...), archive.Dest{})
	if err != nil || got.H1 != want.H1 || hashed.H1 != want.H1 || got.Size != want.Size || len(got.Files) != len(files) {
		t.Errorf("got %+v, %+v and %v, want %+v", got, hashed, err, want)
	}
	info, err := os.Stat(filepath.Join(dir, "terraform-provider-x"))
	sourcetest.Expect(t, err == nil && (info.Mode()&0o111 != 0 || !sourcetest.HasModes), "the provider: %v, %v", info, err)
}

func TestReceiveRejects(t *testing.T) {
	tests := []struct{ files, want string }{
		{"", "no files"},
		{"../x", `".." element`},
		{"/x", "not relative"},
		{"./x", "not in its shortest form"},
		{"d//x", "not in its shortest form"},
		{"d/", "not in its shortest form"},
		{".", "that of a directory"},
		{"x x", "occurs twice"},
		{"X x", "only in case"},
		{"x x/y", "both a file and a directory"},
		{"a b c d/e", "limit of 4 files"},
		{"a=12345 b=123456", "limit of 10 bytes"},
	}
	archive.SetMaxFiles(t, 4)
	for _, test := range tests {
		for _, to := range []archive.Dest{{}, to(t, t.TempDir())} {
			to.Size = 10
			_, err := archive.Receive(t.Context(), arriving(strings.Fields(test.files)...), to)
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.want),
				"%s: got %v, want %s", test.files, err, test.want)
		}
	}
	cut := errors.New("cut short")
	_, err := archive.Receive(t.Context(), func(yield func(sources.Incoming, error) bool) {
		_ = yield(sources.Incoming{Path: "x", Data: strings.NewReader("")}, nil) && yield(sources.Incoming{}, cut)
	}, to(t, t.TempDir()))
	sourcetest.ErrorIs(t, err, cut)
}

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
	check(t, sourcetest.Symlink(t, target, link))
}

var bothWays = map[string]func(t *testing.T, dir string) (sources.Contents, string, error){
	"Hash": func(t *testing.T, dir string) (sources.Contents, string, error) {
		c, err := archive.Hash(t.Context(), dir)
		resolved, _ := filepath.EvalSymlinks(dir)
		return c, resolved, err
	},
	"Copy": func(t *testing.T, dir string) (sources.Contents, string, error) {
		copied := t.TempDir()
		c, err := archive.Copy(t.Context(), dir, to(t, copied))
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
			if _, err := archive.Copy(t.Context(), src, dest); err != nil {
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
	f := sourcetest.Must(os.Create(filepath.Join(t.TempDir(), "x.zip")))(t)
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
	_, err := archive.Sum(t.Context(), f, size)
	runtime.ReadMemStats(&after)
	sourcetest.ErrorIs(t, err, archive.ErrLimit)
	taken := after.TotalAlloc - before.TotalAlloc
	sourcetest.Expect(t, taken <= 16<<20, "%d MiB were allocated", taken>>20)
	_, err = archive.Sum(t.Context(), f, 9<<30)
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
