package archive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
	"golang.org/x/mod/sumdb/dirhash"
)

func TestRejectedNames(t *testing.T) {
	tests := []struct {
		names string // separated by spaces
		want  string // in the error
	}{
		{"../x", `".." element`},
		{"a/../../x", `".." element`},
		{`..\x`, `".." element`},
		{`a\..\x`, `".." element`},
		{"/etc/passwd", "not relative"},
		{`\x`, "not relative"},
		{"C:/x", "not relative"},
		{"c:x", "not relative"},
		{"a\nb", "control characters"},
		{"a\x00b", "control characters"},
		{"a/\xff", "not UTF-8"},
		{"x x", "occurs twice"},
		{"d/ d/", "occurs twice"},
		{"x ./x", "occurs twice"},
		{"LICENSE license", "only in case"},
		{"a/x A/y", "only in case"},
		{"ä Ä", "only in case"},
		{"x x/y", "both a file and a directory"},
		{"x/y x", "both a file and a directory"},
		{"x x/", "both a file and a directory"},
		{".", "that of a directory"},
		{strings.Repeat("n", 256), "too long"},
		{strings.Repeat("d/", 2048) + "f", "too long"},
		{"a/..", `".." element`},
	}
	for _, test := range tests {
		t.Run(test.names, func(t *testing.T) {
			items := []item{file("terraform-provider-x", "")}
			for name := range strings.SplitSeq(test.names, " ") {
				items = append(items, item{name: name})
			}
			data := makeZip(t, items...)
			_, _, err := unpack(t, data)
			var entry *archive.EntryError
			sourcetest.Expect(t, errors.As(err, &entry) && strings.Contains(err.Error(), test.want),
				"got error %v, want one about an entry, with %q", err, test.want)
			_, listErr := archive.List(bytes.NewReader(data), int64(len(data)))
			sourcetest.Expect(t, listErr != nil && listErr.Error() == err.Error(), "listing: %v", listErr)
		})
	}
}

func TestAcceptedNames(t *testing.T) {
	names := []string{"..x", "a/.x", "./x", "a//b", "a/./b", "ünïcode", "with space", "-"}
	if runtime.GOOS != "windows" {
		names = append(names, "...", "x..")
	}
	for _, name := range names {
		dir, c, err := unpack(t, makeZip(t, item{name: "./"}, file(name, "text")))
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		want, err := dirhash.HashDir(dir, "", dirhash.Hash1)
		sourcetest.Expect(t, err == nil && string(c.H1) == want,
			"%q: contents are %s, the directory is %s, %v", name, c.H1, want, err)
	}
}

// header returns an archive with one entry, after change has changed its
// header.
func header(t testing.TB, change func(*zip.FileHeader)) []byte {
	t.Helper()
	h := &zip.FileHeader{
		Name: "terraform-provider-x", Method: zip.Store, CRC32: 0x3610a686, // CRC-32 of "hello"
		CompressedSize64: 5, UncompressedSize64: 5,
	}
	change(h)
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f := sourcetest.Must(w.CreateRaw(h))(t)
	if _, err := io.WriteString(f, "hello"); err != nil && !strings.HasSuffix(h.Name, "/") {
		t.Fatal(err)
	}
	check(t, w.Close())
	return out.Bytes()
}

func TestRejectedHeaders(t *testing.T) {
	tests := []struct {
		name   string
		change func(*zip.FileHeader)
		want   string // empty means that the archive is accepted
	}{
		{"honest", func(h *zip.FileHeader) {}, ""},
		{"no checksum", func(h *zip.FileHeader) { h.CRC32 = 0 }, ""},
		{"wrong checksum", func(h *zip.FileHeader) { h.CRC32++ }, "CRC-32"},
		{"symlink", func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }, "neither a file nor a directory"},
		{"device", func(h *zip.FileHeader) { h.SetMode(fs.ModeDevice | 0o666) }, "neither a file nor a directory"},
		{"named pipe", func(h *zip.FileHeader) { h.SetMode(fs.ModeNamedPipe | 0o666) }, "neither a file nor a directory"},
		{"directory named as a file", func(h *zip.FileHeader) { h.SetMode(fs.ModeDir | 0o755) }, "neither a file nor a directory"},
		{"file named as a directory", func(h *zip.FileHeader) { h.Name = "x/" }, "directory with contents"},
		{"encrypted", func(h *zip.FileHeader) { h.Flags |= 1 }, "encrypted"},
		{"zstd", func(h *zip.FileHeader) { h.Method = 93 }, "unknown method 93"},
		{"stored too large", func(h *zip.FileHeader) { h.UncompressedSize64 = 6 }, "two different sizes"},
		{"longer than the archive", func(h *zip.FileHeader) { h.CompressedSize64, h.UncompressedSize64 = 1e6, 1e6 }, "beyond the end"},
		{"not deflated", func(h *zip.FileHeader) { h.Method = zip.Deflate }, "corrupt"},
		{"deflated beyond the end", func(h *zip.FileHeader) { h.Method, h.CompressedSize64 = zip.Deflate, 1e6 }, "beyond the end"},
		{"too large", func(h *zip.FileHeader) { h.Method, h.UncompressedSize64 = zip.Deflate, 9<<30 }, "exceeds the limit"},
		{"too large to add up", func(h *zip.FileHeader) { h.Method, h.UncompressedSize64 = zip.Deflate, 1<<64-1 }, "exceeds the limit"},
		{"too dense", func(h *zip.FileHeader) { h.Method, h.UncompressedSize64 = zip.Deflate, 2<<30 }, "exceeds the limit"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := unpack(t, header(t, test.change))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

func TestImplicitDirectoriesCount(t *testing.T) {
	items := []item{file("terraform-provider-x", "")}
	for i := range 1000 {
		items = append(items, item{name: strings.Repeat(strconv.Itoa(i)+"/", 10) + "f"})
	}
	_, _, err := unpack(t, makeZip(t, items...))
	sourcetest.Expect(t, errors.Is(err, archive.ErrLimit), "got error %v, want one about the limit", err)
}

// directory returns the n-th entry in the directory of an archive.
func directory(t *testing.T, archived []byte, n int) []byte {
	t.Helper()
	entry := archived
	for range n + 1 {
		i := bytes.Index(entry[1:], []byte("PK\x01\x02"))
		sourcetest.Require(t, i >= 0, "no such entry")
		entry = entry[i+1:]
	}
	return entry
}

func TestBrokenArchives(t *testing.T) {
	const descriptor = "PK\x07\x08"
	whole := makeZip(t, file("terraform-provider-x", "text"))
	at := bytes.Index(whole, []byte(descriptor))
	changed := func(archived []byte, change func([]byte)) []byte {
		archived = bytes.Clone(archived)
		change(archived)
		return archived
	}
	inAnotherSize := func(size uint32) []byte {
		packed := makeZip(t, file("terraform-provider-x", strings.Repeat("x", 1000)))
		return changed(packed, func(b []byte) { binary.LittleEndian.PutUint32(directory(t, b, 0)[24:], size) })
	}
	for name, test := range map[string]struct {
		data []byte
		want string // in the error
	}{
		"nothing": {nil, ""}, "text": {[]byte("<html>"), ""}, "cut": {whole[:len(whole)-10], ""},
		"no entries": {makeZip(t), ""}, "directories only": {makeZip(t, item{name: "a/"}), ""},
		"deflated from less": {inAnotherSize(999), "state"}, "deflated from more": {inAnotherSize(1001), "state"},
		"another checksum in the descriptor": {changed(whole, func(b []byte) { b[at+len(descriptor)]++ }), "descriptor"},
		"shared bytes": {changed(makeZip(t, file("a", "text"), file("b", "text")), func(b []byte) {
			binary.LittleEndian.PutUint32(directory(t, b, 1)[42:], 0) // offset of b
		}), "shares bytes"},
	} {
		_, _, err := unpack(t, test.data)
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.want), "%s: got error %v", name, err)
	}
	// Without the optional signature of the descriptor, the checksum is in its place.
	_, _, err := unpack(t, changed(whole, func(b []byte) { copy(b[at:], whole[at+len(descriptor):][:4]) }))
	sourcetest.Equal(t, err, nil, "without a signature: got error")
}

func TestLimits(t *testing.T) {
	archived := makeZip(t, file("a", "four"), file("b", "four"))
	src, _, err := unpack(t, archived)
	check(t, err)
	tests := []struct {
		size  int64
		files int
		want  bool
	}{
		{8, 2, false},
		{7, 10, true},
		{0, 1, true},
	}
	for _, test := range tests {
		archive.SetMaxFiles(t, test.files)
		dest, other := to(t, t.TempDir()), to(t, t.TempDir())
		dest.Size, other.Size = test.size, test.size
		_, err := archive.Unpack(t.Context(), bytes.NewReader(archived), int64(len(archived)), dest)
		sourcetest.Expect(t, errors.Is(err, archive.ErrLimit) == test.want, "Unpack within %+v: error %v", test, err)
		_, err = archive.Copy(t.Context(), src, other)
		sourcetest.Expect(t, errors.Is(err, archive.ErrLimit) == test.want, "Copy within %+v: error %v", test, err)
	}
}

// Reading the directory of an archive with too many entries stops early.
func TestEndlessDirectory(t *testing.T) {
	items := make([]item, 3000)
	for i := range items {
		items[i].name = strings.Repeat("long", 1000) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
	}
	archived := makeZip(t, items...)
	archive.SetMaxFiles(t, 100)
	_, err := archive.Unpack(t.Context(), bytes.NewReader(archived), int64(len(archived)), to(t, t.TempDir()))
	sourcetest.ErrorIs(t, err, archive.ErrLimit, "error")
}

func TestModes(t *testing.T) {
	sourcetest.SkipOnWindows(t, "there are no such modes")
	tests := []struct {
		name string
		mode fs.FileMode
		want fs.FileMode
	}{
		{"x", 0, 0o644},
		{"x", 0o600, 0o644},
		{"x", 0o666, 0o644},
		{"x", 0o700, 0o755},
		{"x", 0o777 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky, 0o755},
		{"terraform-provider-x_v1", 0, 0o755},
		{"terraform-provider-x_v1", 0o644, 0o755},
		{"docs/terraform-provider-x_v1", 0, 0o644},
	}
	for _, test := range tests {
		dir, _, err := unpack(t, makeZip(t, item{name: test.name, mode: test.mode}))
		check(t, err)
		info := sourcetest.Must(os.Stat(filepath.Join(dir, test.name)))(t)
		sourcetest.Expect(t, info.Mode() == test.want,
			"%s with mode %v gets %v, want %v", test.name, test.mode, info.Mode(), test.want)
	}
}

func TestUnpackStopsWhenCanceled(t *testing.T) {
	archived := makeZip(t, file("terraform-provider-x", strings.Repeat("x", 8<<20)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := archive.Unpack(ctx, bytes.NewReader(archived), int64(len(archived)), to(t, t.TempDir()))
	sourcetest.ErrorIs(t, err, context.Canceled, "error")
}

// The directory is opened once. If it is replaced later, the replacement does
// not change.
func TestUnpackIntoOccupiedDirectory(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	check(t, sourcetest.Symlink(t, outside, filepath.Join(dir, "terraform-provider-x")))
	archived := makeZip(t, file("terraform-provider-x", "text"))
	_, err := archive.Unpack(t.Context(), bytes.NewReader(archived), int64(len(archived)), to(t, dir))
	sourcetest.Expect(t, err != nil, "no error")
	_, err = os.Lstat(outside)
	sourcetest.Expect(t, err != nil, "wrote through a symlink")
}

// Concurrent calls share blocks and decoders.
func TestUnpackSideBySide(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		archived := makeZip(t, file("terraform-provider-x", strings.Repeat(string(rune('a'+i)), i<<18)), file("LICENSE", "x"))
		dir := t.TempDir()
		wg.Go(func() {
			c, err := archive.Unpack(t.Context(), bytes.NewReader(archived), int64(len(archived)), to(t, dir))
			if err != nil {
				t.Error(err)
				return
			}
			want, err := dirhash.HashDir(dir, "", dirhash.Hash1)
			sourcetest.Expect(t, err == nil && string(c.H1) == want, "contents are %s, the directory is %s, %v", c.H1, want, err)
		})
	}
	wg.Wait()
}

// lyingZips are archives whose entries overlap, whose records for large files contradict others, and whose data
// descriptors are wrong.
func lyingZips(t testing.TB) (all [][]byte) {
	change := func(good []byte, signature string, n, at int, with ...byte) []byte {
		changed, from := bytes.Clone(good), 0
		for range n {
			from += bytes.Index(good[from+1:], []byte(signature)) + 1
		}
		copy(changed[from+at:], with)
		return changed
	}
	const local, central, descriptor, end = "PK\x03\x04", "PK\x01\x02", "PK\x07\x08", "PK\x05\x06"
	good := makeZip(t, file("terraform-provider-x", strings.Repeat("hello", 100)), item{name: "y", text: "hello"})
	for n := 1; n <= 2; n++ {
		all = append(all,
			change(good, central, n, 42, 0, 0, 0, 0), change(good, central, n, 42, 1), // both at the first, or inside of it
			change(good, descriptor, n, 4, 1, 2, 3, 4),             // the CRC-32
			change(good, descriptor, n, 8, 0xff, 0xff, 0xff, 0x7f), // the size
			change(good, descriptor, n, 0, 0), change(good, central, n, 8, 0),
			change(good, central, n, 20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
	}
	all = append(all, change(good, local, 1, 6, 0), change(good, end, 1, 8, 0xff, 0xff, 0xff, 0xff),
		change(good, end, 1, 10, 1), change(good, end, 1, 16, 0xff, 0xff, 0xff, 0xff))
	large := header(t, func(h *zip.FileHeader) { h.CompressedSize64, h.UncompressedSize64 = 1<<32, 1<<32 })
	const record = "\x01\x00\x18\x00" // for large files
	for _, size := range []uint64{0, 5, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		sizes := binary.LittleEndian.AppendUint64(nil, size)
		all = append(all, change(large, record, 1, 2, byte(size)), change(large, record, 1, 4, sizes...),
			change(large, record, 1, 12, sizes...), change(large, record, 1, 20, sizes...))
	}
	return all
}

// Lying archives are refused, or have what their list of entries says.
func TestLyingZips(t *testing.T) {
	accepted := 0
	for i, lying := range lyingZips(t) {
		dir, c, err := unpack(t, lying)
		if err != nil {
			continue
		}
		accepted++
		want, err := dirhash.HashZip(written(t, lying), dirhash.Hash1)
		sourcetest.Expect(t, err == nil && string(c.H1) == want, "%d: %s, package zip reads %s, %v", i, c.H1, want, err)
		want, err = dirhash.HashDir(dir, "", dirhash.Hash1)
		sourcetest.Expect(t, err == nil && string(c.H1) == want, "%d: %s, the directory is %s, %v", i, c.H1, want, err)
	}
	sourcetest.Expect(t, accepted > 0, "all are refused")
}

// written returns the path of a file with some contents.
func written(t *testing.T, data []byte) string {
	path := filepath.Join(t.TempDir(), "x.zip")
	check(t, os.WriteFile(path, data, 0o600))
	return path
}

func FuzzUnpack(f *testing.F) {
	good := makeZip(f, file("terraform-provider-foo", "hello\n"), item{name: "sub/"}, file("sub/LICENSE", "x"))
	sourcetest.AddSeeds[[]byte](f, string(good))
	f.Add(makeZip(f, file("../x", "x"), file("a/../../x", "x")))
	f.Add(makeZip(f, item{name: "terraform-provider-foo", text: "hello", method: zip.Store, mode: fs.ModeSymlink}))
	f.Add(makeZip(f, file("a", strings.Repeat("abcdefgh", 1<<12)), file("A", "")))
	for _, names := range [][2]string{
		{"é", "e\u0301"}, {"ﬁ", "fi"}, {"K", "\u212a"}, {"x", "X"}, {"/x", "x"}, {"C:/x", `C:\x`}, {"a/b", `a\b`},
	} {
		f.Add(makeZip(f, file(names[0], "x"), file(names[1], "y")))
	}
	for _, lying := range lyingZips(f) {
		f.Add(lying)
	}
	archive.SetMaxFiles(f, 100)
	f.Fuzz(func(t *testing.T, data []byte) {
		base := t.TempDir()
		dir := filepath.Join(base, "dir")
		check(t, os.Mkdir(dir, 0o755))
		dest := to(t, dir)
		dest.Size = 1 << 20
		c, err := archive.Unpack(t.Context(), bytes.NewReader(data), int64(len(data)), dest)
		beside, _ := os.ReadDir(base)
		sourcetest.Require(t, len(beside) == 1, "wrote outside: %v", beside)
		if err != nil {
			return
		}
		want, err := dirhash.HashDir(dir, "", dirhash.Hash1)
		sourcetest.Require(t, err == nil && string(c.H1) == want, "contents are %s, the directory is %s, %v", c.H1, want, err)
		again, err := archive.Hash(t.Context(), dir)
		sourcetest.Require(t, err == nil && again.H1 == c.H1 && again.Size == c.Size,
			"hashed again it is %+v, not %+v: %v", again, c, err)
	})
}
