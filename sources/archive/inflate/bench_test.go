package inflate_test

import (
	"bytes"
	"compress/flate"
	"io"
	"os"
	"testing"

	kflate "github.com/klauspost/compress/flate"
	"github.com/larder-cli/larder/sources/archive/inflate"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The data is this test binary, because providers are Go programs too.
func BenchmarkInflate(b *testing.B) {
	self, err := os.Executable()
	sourcetest.Check(b, err)
	program := sourcetest.ReadFile(b, self)
	packed := deflated(b, program, flate.DefaultCompression)
	run := func(name string, inflate func(io.Reader) error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(program)))
			for b.Loop() {
				sourcetest.Check(b, inflate(bytes.NewReader(packed)))
			}
		})
	}
	run("stdlib", func(r io.Reader) error { _, err := io.Copy(io.Discard, flate.NewReader(r)); return err })
	run("klauspost", func(r io.Reader) error { _, err := io.Copy(io.Discard, kflate.NewReader(r)); return err })
	var d inflate.Decoder
	run("ours", func(r io.Reader) error { return inflated(&d, r, 256<<10, io.Discard) })
}
