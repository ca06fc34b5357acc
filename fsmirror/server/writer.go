package server

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A writer writes an answer, and notes what was written. A client that takes none of it for a while loses its
// connection.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
	bytes   int64
}

const (
	chunk     = 256 << 10        // bytes that a client must take
	chunkTime = 60 * time.Second // within this time
)

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.status == 0 || w.status < 200 {
		w.status = status
	}
	if status == http.StatusPreconditionFailed { // http.ServeContent leaves the headers of the file, so caches would keep this for others
		w.Header().Set("Cache-Control", "no-store")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (w *writer) Write(p []byte) (n int, err error) {
	for begin := true; begin || len(p) > 0; begin = false {
		some := p[:min(len(p), chunk)]
		w.extend()
		m, err := w.ResponseWriter.Write(some)
		w.bytes += int64(m)
		if n += m; err != nil {
			return n, err
		}
		p = p[m:]
	}
	return n, nil
}

// ReadFrom implements [io.ReaderFrom], so that files are not copied through this program where the system can avoid it.
func (w *writer) ReadFrom(from io.Reader) (n int64, err error) {
	to := io.Writer(w.ResponseWriter)
	if _, ok := to.(io.ReaderFrom); !ok {
		buffer, done := getBuffer()
		defer done()
		for {
			m, err := from.Read(buffer)
			if m > 0 {
				if m, err := w.Write(buffer[:m]); err != nil {
					return n + int64(m), err
				}
				n += int64(m)
			}
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			if err != nil {
				return n, err
			}
		}
	}
	for {
		w.extend()
		m, err := io.CopyN(to, from, chunk)
		w.bytes += m
		n += m
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// The buffers of answers over HTTP/2. It is faster with large ones, but with many clients, they would take too much memory.
var (
	large    = sync.Pool{New: func() any { return new([chunk]byte) }}
	small    = sync.Pool{New: func() any { return new([32 << 10]byte) }}
	largeNow atomic.Int64
)

// mostLarge is how many large buffers are in use at a time.
const mostLarge = 64

// getBuffer returns a buffer, which may be used until done is called.
func getBuffer() (buffer []byte, done func()) {
	if largeNow.Add(1) <= mostLarge {
		b := large.Get().(*[chunk]byte)
		return b[:], func() { large.Put(b); largeNow.Add(-1) }
	}
	largeNow.Add(-1)
	b := small.Get().(*[32 << 10]byte)
	return b[:], func() { small.Put(b) }
}

// extend gives the client time for the next chunk.
func (w *writer) extend() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = w.control.SetWriteDeadline(time.Now().Add(chunkTime)) // not all connections have deadlines
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
