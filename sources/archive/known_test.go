package archive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
	"golang.org/x/mod/sumdb/dirhash"
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
		f, err := w.CreateHeader(h)
		check(t, err)
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
	c, err := archive.Unpack(context.Background(), bytes.NewReader(archived), int64(len(archived)), to(t, dir), archive.Limits{})
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
	path := filepath.Join(t.TempDir(), "x.zip")
	check(t, os.WriteFile(path, archived, 0o644))
	want, err = dirhash.HashZip(path, dirhash.Hash1)
	sourcetest.Expect(t, err == nil && string(c.ZipH1) == want, "the archive is %s and should be %s, %v", c.ZipH1, want, err)
}
