package archive_test

import (
	"archive/zip"
	"bytes"
	stdflate "compress/flate"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

const benchSize = 200 << 20

// providerLike returns a file with the size of a large provider. Its contents
// are this test binary, because providers are Go programs too.
func providerLike(b testing.TB) []byte {
	self, err := os.Executable()
	check(b, err)
	program := sourcetest.ReadFile(b, self)
	return bytes.Repeat(program, benchSize/len(program)+1)[:benchSize]
}

func deflated(b *testing.B, data []byte) []byte {
	var out bytes.Buffer
	w, err := stdflate.NewWriter(&out, stdflate.DefaultCompression)
	check(b, err)
	_, err = w.Write(data)
	sourcetest.Check(b, err)
	check(b, w.Close())
	return out.Bytes()
}

func BenchmarkInflate(b *testing.B) {
	packed := deflated(b, providerLike(b))
	b.Logf("%d bytes packed to %d", benchSize, len(packed))
	for _, bm := range []struct {
		name string
		open func(io.Reader) io.ReadCloser
	}{{"stdlib", stdflate.NewReader}, {"klauspost", flate.NewReader}} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(benchSize)
			for b.Loop() {
				_, err := io.Copy(io.Discard, bm.open(bytes.NewReader(packed)))
				sourcetest.Check(b, err)
			}
		})
	}
}

func BenchmarkPackage(b *testing.B) {
	data := providerLike(b)
	archived := makeZip(b, item{name: "terraform-provider-x", text: string(data), method: zip.Deflate})
	ctx, base := context.Background(), b.TempDir()
	src := filepath.Join(base, "src")
	check(b, os.Mkdir(src, 0o755))
	check(b, os.WriteFile(filepath.Join(src, "terraform-provider-x"), data, 0o755))
	n := 0
	next := func() string {
		n++
		os.RemoveAll(filepath.Join(base, strconv.Itoa(n-1)))
		dir := filepath.Join(base, strconv.Itoa(n))
		check(b, os.Mkdir(dir, 0o755))
		return dir
	}
	for _, bm := range []struct {
		name string
		run  func() error
	}{
		{"Unpack", func() error {
			_, err := archive.Unpack(ctx, bytes.NewReader(archived), int64(len(archived)), to(b, next()), archive.Limits{})
			return err
		}},
		{"Copy", func() error { _, err := archive.Copy(ctx, src, to(b, next()), archive.Limits{}); return err }},
		{"Hash", func() error { _, err := archive.Hash(ctx, src); return err }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(benchSize)
			for b.Loop() {
				check(b, bm.run())
			}
		})
	}
}
