package server

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// A narrowWriter is one of HTTP/2, which copies nothing itself, whose client is gone after some bytes.
type narrowWriter struct {
	http.ResponseWriter
	room int
}

func (w *narrowWriter) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, io.ErrClosedPipe
	}
	return w.ResponseWriter.Write(p)
}

// Copying ends with the first error of either side, and counts what was sent.
func TestCopyOverHTTP2(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		from io.Reader
		want int64
		err  error
	}{
		{strings.NewReader(strings.Repeat("a", 80<<10)), 80 << 10, nil},
		{io.MultiReader(strings.NewReader("begin"), iotest.ErrReader(broken)), 5, broken},
		{strings.NewReader(strings.Repeat("a", 2*chunk)), chunk, io.ErrClosedPipe},
	} {
		to := httptest.NewRecorder()
		w := &writer{ResponseWriter: &narrowWriter{to, chunk + 100}, control: http.NewResponseController(to)}
		n, err := w.ReadFrom(c.from)
		if n != c.want || w.bytes != n || int64(to.Body.Len()) != n || !errors.Is(err, c.err) || w.status != http.StatusOK {
			t.Errorf("%d bytes, %d counted, %d sent, status %d, %v, want %d and %v", n, w.bytes, to.Body.Len(), w.status, err, c.want, c.err)
		}
	}
}

// A document of any size is written completely, and an empty one is an answer, too.
func TestWriteInChunks(t *testing.T) {
	for _, size := range []int{0, 1, 2*chunk + 1} {
		to := httptest.NewRecorder()
		w := &writer{ResponseWriter: to, control: http.NewResponseController(to)}
		n, err := w.Write(make([]byte, size))
		if n != size || w.bytes != int64(size) || to.Body.Len() != size || err != nil || w.status != http.StatusOK {
			t.Errorf("%d of %d bytes, %d counted, %d sent, status %d, %v", n, size, w.bytes, to.Body.Len(), w.status, err)
		}
	}
}
