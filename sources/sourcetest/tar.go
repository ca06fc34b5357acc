package sourcetest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
)

// A TarEntry is an entry of a tar archive. [PackTar] sets its size.
type TarEntry struct {
	tar.Header
	Text string
}

// UnpackTar returns the entries of an archive.
func UnpackTar(data []byte) []TarEntry {
	var all []TarEntry
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		check(err)
		text, err := io.ReadAll(in)
		check(err)
		all = append(all, TarEntry{*h, string(text)})
	}
}

// PackTar returns an archive with the entries, even if their headers are
// invalid.
func PackTar(all []TarEntry) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		e.Size, e.Format = int64(len(e.Text)), tar.FormatUnknown
		if e.Typeflag != tar.TypeReg {
			e.Size = 0
		}
		check(w.WriteHeader(&e.Header))
		if e.Size > 0 {
			_, err := w.Write([]byte(e.Text))
			check(err)
		}
	}
	check(w.Close())
	return out.Bytes()
}
