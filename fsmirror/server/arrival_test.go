package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The file of an archive is open until the last client has left, unless the download begins again.
func TestArrivalClosesItsFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "partial")
	sourcetest.Check(t, os.WriteFile(path, []byte("a"), 0o644))
	closed := func(f *os.File) bool {
		_, err := f.ReadAt(make([]byte, 1), 0)
		return errors.Is(err, os.ErrClosed)
	}
	a := newArrival()
	a.enter()
	sourcetest.Check(t, a.Observe(sources.Arriving{Size: 1}))
	sourcetest.Expect(t, a.file == nil, "open before it has bytes")
	sourcetest.Check(t, a.Observe(sources.Arriving{Path: path, Done: 1}))
	first := a.file
	sourcetest.Expect(t, !closed(first), "closed before it is used")
	sourcetest.Check(t, a.Observe(sources.Arriving{Path: path}))
	sourcetest.Check(t, a.Observe(sources.Arriving{Path: path, Done: 1}))
	sourcetest.Expect(t, closed(first) && !closed(a.file), "open after the download began again")
	a.end(nil)
	sourcetest.Expect(t, !closed(a.file), "closed while a client reads it")
	a.leave()
	sourcetest.Expect(t, closed(a.file), "open after the last client has left")
}

// A client gets an error, and not the end of the archive, if a program has shortened the file.
func TestShortenedArrival(t *testing.T) {
	path := filepath.Join(t.TempDir(), "partial")
	sourcetest.Check(t, os.WriteFile(path, []byte("a"), 0o644))
	a := newArrival()
	sourcetest.Check(t, a.Observe(sources.Arriving{Path: path, Done: heldBack + 2}))
	r, _, err := a.reader(t.Context())
	sourcetest.Check(t, err)
	_, err = io.ReadAll(r)
	sourcetest.ErrorIs(t, err, io.ErrUnexpectedEOF)
	a.end(err)
}

// A client that waits for its first bytes isn't concerned by a download that begins again.
func TestArrivalThatBeginsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "partial")
	sourcetest.Check(t, os.WriteFile(path, make([]byte, heldBack+2), 0o644))
	a := newArrival()
	a.enter()
	defer a.leave()
	sourcetest.Check(t, a.Observe(sources.Arriving{Path: path, Done: heldBack + 1}))
	sourcetest.Check(t, a.file.Close()) // as if it began again before the client reads
	go func() {
		_ = a.Observe(sources.Arriving{Path: path})
		_ = a.Observe(sources.Arriving{Path: path, Done: heldBack + 2})
		a.end(nil)
	}()
	r, _, err := a.reader(t.Context())
	sourcetest.Check(t, err)
	got, err := io.ReadAll(r)
	sourcetest.Expect(t, err == nil && len(got) == heldBack+2, "%d bytes, %v", len(got), err)
}
