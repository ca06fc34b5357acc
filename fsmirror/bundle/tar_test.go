package bundle_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A tarEntry is an entry of a tar archive. [packTar] sets its size.
type tarEntry struct {
	tar.Header
	Text string
}

// unpackTar returns the entries of an archive.
func unpackTar(t testing.TB, data []byte) []tarEntry {
	t.Helper()
	var all []tarEntry
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		check(t, err)
		text, err := io.ReadAll(in)
		check(t, err)
		all = append(all, tarEntry{*h, string(text)})
	}
}

// packTar returns an archive with the entries, even if their headers are
// invalid.
func packTar(t testing.TB, all []tarEntry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		e.Size, e.Format = int64(len(e.Text)), tar.FormatUnknown
		if e.Typeflag != tar.TypeReg {
			e.Size = 0
		}
		check(t, w.WriteHeader(&e.Header))
		if e.Size > 0 {
			_, err := w.Write([]byte(e.Text))
			check(t, err)
		}
	}
	check(t, w.Close())
	return out.Bytes()
}

// tarBlock is the size of the blocks of a tar archive.
const tarBlock = 512

// hostileTars returns variants of an archive. In each, the headers of one entry lie: about its type, in records that
// replace its path or its size, with a sparse file, or with another spelling of the name. Package tar refuses to write
// most of them.
func hostileTars(t testing.TB, valid []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for at := 0; at+tarBlock <= len(valid) && valid[at] != 0; {
			header := valid[at : at+tarBlock]
			size, err := strconv.ParseInt(string(bytes.Trim(header[124:136], " \x00")), 8, 32)
			check(t, err)
			next := at + tarBlock + (int(size)+tarBlock-1)/tarBlock*tarBlock
			name := string(bytes.TrimRight(header[:100], "\x00"))
			var all [][]byte // in place of the header
			for _, kind := range "1234567SLKVxg" {
				all = append(all, tarHeader(header, name, byte(kind), size))
			}
			for _, before := range []string{"/", "C:", `..\`, "../", "./", "e\u0301"} {
				all = append(all, tarHeader(header, before+name, header[156], size))
			}
			for _, key := range []string{
				"path=../x", "path=/x", "path=" + name + "\x00", "size=0", "size=9223372036854775807", "size=-1",
				"linkpath=/etc/passwd",
				"GNU.sparse.major=1\nGNU.sparse.minor=0\nGNU.sparse.realsize=1099511627776\nGNU.sparse.name=../x",
				"GNU.sparse.map=0,1\nGNU.sparse.numblocks=1\nGNU.sparse.size=1099511627776",
			} {
				records := ""
				for record := range strings.SplitSeq(key, "\n") {
					records += fmt.Sprintf("%03d %s\n", len(record)+5, record)
				}
				x := tarHeader(header, "PaxHeaders/x", 'x', int64(len(records)))
				all = append(all, slices.Concat(x, []byte(records), make([]byte, -len(records)&(tarBlock-1)), header))
			}
			other := tarHeader(header, "E\u0301"+name, header[156], size)
			all = append(all, valid[at:next], slices.Concat(valid[at:next], other))
			for i, instead := range all {
				rest := valid[at+tarBlock:]
				if i == len(all)-2 { // the entry occurs twice
					rest = valid[at:]
				}
				if !yield(slices.Concat(valid[:at], instead, rest)) {
					return
				}
			}
			at = next
		}
	}
}

// tarHeader returns a header like another one.
func tarHeader(like []byte, name string, kind byte, size int64) []byte {
	h := slices.Clone(like)
	clear(h[:100])
	copy(h[:100], name)
	copy(h[124:136], fmt.Sprintf("%011o\x00", size))
	h[156] = kind
	copy(h[148:156], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return h
}
