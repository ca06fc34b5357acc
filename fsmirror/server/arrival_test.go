package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// The file of an archive is open until the last client has left, unless the download begins again.
func TestArrivalClosesItsFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "partial")
	sourcetest.Check(t, os.WriteFile(path, []byte("a"), 0o644))
	closed := func(f arriving) bool {
		_, err := f.ReadAt(make([]byte, 1), 0)
		return errors.Is(err, os.ErrClosed)
	}
	a := newArrival()
	a.enter()
	sourcetest.Check(t, a.Begin(path, 0))
	first := a.file
	sourcetest.Expect(t, !closed(first), "closed before it is used")
	sourcetest.Check(t, a.Begin(path, 1))
	sourcetest.Expect(t, closed(first) && !closed(a.file), "open after the download began again")
	a.end(nil)
	sourcetest.Expect(t, !closed(a.file), "closed while a client reads it")
	a.leave()
	sourcetest.Expect(t, closed(a.file), "open after the last client has left")
}
