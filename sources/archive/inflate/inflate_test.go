package inflate_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	kflate "github.com/klauspost/compress/flate"

	"github.com/larder-cli/larder/sources/archive/inflate"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// inflated decodes the stream in src piece by piece, with a buffer of room
// bytes in addition to history and slack.
func inflated(d *inflate.Decoder, src io.Reader, room int, out io.Writer) error {
	buf := make([]byte, inflate.History+room+inflate.Slack)
	from := inflate.History
	d.Reset(src)
	for {
		to, err := d.Decode(buf, from)
		out.Write(buf[from:to])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		from = copy(buf, buf[to-inflate.History:to])
	}
}

func deflated(t testing.TB, data []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := sourcetest.Must(flate.NewWriter(&out, level))(t)
	sourcetest.Must(w.Write(data))(t)
	sourcetest.Check(t, w.Close())
	return out.Bytes()
}

func samples(t testing.TB) map[string][]byte {
	t.Helper()
	random := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{}).Read(random)
	few := bytes.Clone(random)
	for i := range few {
		few[i] = "aab\n"[few[i]&3]
	}
	skewed := bytes.Clone(random) // requires codes of up to 15 bits
	for i := range skewed {
		skewed[i] = byte(int(skewed[i]) * int(skewed[(i+1)%len(skewed)]) * int(skewed[(i+7)%len(skewed)]) >> 16)
	}
	return map[string][]byte{
		"nothing": {}, "a byte": {'x'}, "zeros": make([]byte, 1<<20), "random": random, "few": few, "skewed": skewed,
		"words":     []byte(strings.Repeat("terraform-provider-", 20_000)),
		"period 3":  []byte(strings.Repeat("abc", 100_000)),
		"far apart": bytes.Repeat(random[:32<<10], 3),
	}
}

func TestDecode(t *testing.T) {
	var d inflate.Decoder
	for name, data := range samples(t) {
		for _, level := range []int{flate.HuffmanOnly, flate.NoCompression, flate.BestSpeed, 6, flate.BestCompression} {
			packed := deflated(t, data, level)
			for _, room := range []int{300, 20_000, 256 << 10} {
				var out bytes.Buffer
				if err := inflated(&d, bytes.NewReader(packed), room, &out); err != nil || !bytes.Equal(out.Bytes(), data) {
					t.Errorf("%s at level %d with room for %d: got %d bytes, want %d; error %v", name, level, room, out.Len(), len(data), err)
				}
			}
		}
	}
}

func TestSlowReaders(t *testing.T) {
	data := samples(t)["skewed"]
	packed := deflated(t, data, 6)
	for name, r := range map[string]io.Reader{
		"a byte at a time":    iotest.OneByteReader(bytes.NewReader(packed)),
		"end with the data":   iotest.DataErrReader(bytes.NewReader(packed)),
		"bytes after the end": bytes.NewReader(append(packed, "trailer"...)),
	} {
		var d inflate.Decoder
		var out bytes.Buffer
		if err := inflated(&d, r, 4096, &out); err != nil || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%s: got %d bytes, want %d; error %v", name, out.Len(), len(data), err)
		}
	}
}

func TestErrors(t *testing.T) {
	packed := deflated(t, samples(t)["few"], 6)
	broken := errors.New("broken")
	tests := []struct {
		name string
		src  io.Reader
		want error
	}{
		{"nothing", strings.NewReader(""), io.ErrUnexpectedEOF},
		{"cut at the end", bytes.NewReader(packed[:len(packed)-1]), io.ErrUnexpectedEOF},
		{"cut in the middle", bytes.NewReader(packed[:len(packed)/2]), io.ErrUnexpectedEOF},
		{"read error", io.MultiReader(bytes.NewReader(packed[:1000]), iotest.ErrReader(broken)), broken},
		{"reserved block type", strings.NewReader("\x07"), inflate.ErrCorrupt},
		{"stored length", strings.NewReader("\x01\x01\x00\x00\x00x"), inflate.ErrCorrupt},
		{"distance before the start", strings.NewReader("\x03\x02\x00"), inflate.ErrCorrupt},
	}
	for _, test := range tests {
		var d inflate.Decoder
		sourcetest.ErrorIs(t, inflated(&d, test.src, 4096, io.Discard), test.want, test.name, "error")
	}
}

func FuzzDecode(f *testing.F) {
	for _, data := range samples(f) {
		data = data[:min(len(data), 5000)]
		f.Add(deflated(f, data, 6), uint16(1))
		f.Add(deflated(f, data, flate.HuffmanOnly), uint16(1000))
	}
	f.Add([]byte("\x01\x01\x00\xfe\xffx"), uint16(1))
	f.Add([]byte("\x00\x01\x00\xfe\xffx\x01\x00\x00\xff888888"), uint16(1097))
	f.Fuzz(func(t *testing.T, packed []byte, room uint16) {
		want, wantErr := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), 1<<20))
		if len(want) == 1<<20 {
			t.Skip("so small and so much in it")
		}
		var d inflate.Decoder
		var got bytes.Buffer
		gotErr := inflated(&d, bytes.NewReader(packed), int(room)+1, &got)
		sourcetest.Require(t, (gotErr == nil) == (wantErr == nil), "got error %v, want %v", gotErr, wantErr)
		// The implementations may decode different amounts before they detect
		// an error.
		n := min(got.Len(), len(want))
		sourcetest.Require(t, (gotErr != nil || got.Len() == len(want)) && bytes.Equal(got.Bytes()[:n], want[:n]),
			"got %d bytes %x, want %d bytes %x", got.Len(), got.Bytes(), len(want), want)
	})
}

// The data is this test binary, because providers are Go programs too.
func BenchmarkInflate(b *testing.B) {
	self := sourcetest.Must(os.Executable())(b)
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
