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

// Write implements [io.Writer].
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// finish sends what has not been sent yet. It reports whether the client got all that the header promises.
func (w *writer) finish(method string) bool {
	if method == http.MethodHead || w.status == http.StatusNotModified {
		return w.err == nil // HTTP/2 has no stream left that could be flushed
	}
	size, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	if err == nil || w.bytes > 0 { // otherwise the header gets the size
		w.err = cmp.Or(w.err, w.control.Flush())
	}
	return w.err == nil && (err != nil || w.bytes == size)
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
