package server

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
)

// A writer writes an answer, and notes what was written.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
	bytes   int64
	err     error // of sending to the client
	private bool  // no cache may give the answer to other clients
}

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.status == 0 || w.status < 200 {
		w.status = status
	}
	if status == http.StatusPreconditionFailed { // with the headers of the file, so caches would keep this for others
		w.Header().Set("Cache-Control", "no-store")
	}
	if stored := w.Header().Get("Cache-Control"); w.private && stored != "no-store" {
		w.Header().Set("Cache-Control", strings.TrimSuffix("private, "+stored, ", "))
	}
	w.ResponseWriter.WriteHeader(status)
}

// small is how many bytes HTTP/2 always keeps for Flush.
const small = 1 << 10

// Write implements [io.Writer]. After a larger text, it sends the last byte separately: Flush may fail, although
// nothing was left to be sent, for an HTTP/2 client that has left with the whole answer.
func (w *writer) Write(p []byte) (n int, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if size, sized := w.size(); sized && len(p) > small && w.bytes+int64(len(p)) == size {
		last := len(p) - 1
		if n, err = w.Write(p[:last]); err == nil {
			err = w.control.Flush()
		}
		p = p[last:]
	}
	if err == nil {
		var m int
		m, err = w.ResponseWriter.Write(p)
		w.bytes += int64(m)
		n += m
	}
	w.err = cmp.Or(w.err, err)
	return n, err
}

// size returns the size of the body that the header promises, if it does.
func (w *writer) size() (n int64, ok bool) {
	n, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	return n, err == nil
}

// finish sends what has not been sent yet. It reports whether the client got all that the header promises. An answer
// without a body can't lack anything: HTTP/2 has ended its stream before Flush, which then fails.
func (w *writer) finish(method string) bool {
	if method == http.MethodHead || w.status == http.StatusNotModified {
		return true
	}
	size, sized := w.size()
	if sized || w.bytes > 0 { // otherwise the header gets the size
		w.err = cmp.Or(w.err, w.control.Flush())
	}
	return w.err == nil && (!sized || w.bytes == size)
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
