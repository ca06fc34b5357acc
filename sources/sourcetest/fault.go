package sourcetest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// A Fault makes requests fail. The zero Fault does nothing. Fields can be
// combined where that makes sense.
type Fault struct {
	Path  string // pattern for the paths of URLs, where * matches any text; empty matches all
	Times int    // number of requests with the fault; 0 means all

	Delay      time.Duration // wait before the answer
	Status     int           // status of the answer, without the usual body
	RetryAfter string        // header, verbatim
	Redirect   string        // redirect to this URL, where {path} stands for the requested path
	Body       string        // body of the answer
	Endless    bool          // the answer is JSON that opens brackets without end
	Bomb       int64         // the answer is this many bytes of JSON, compressed to a thousandth
	Drip       time.Duration // informational answers precede the answer without end, one after each such interval

	Edit        func([]byte) []byte // changes the body
	Corrupt     bool                // changes one bit in the middle of the body
	ContentType string              // header; "-" means none
	Length      int64               // header Content-Length, regardless of the body, which is cut to that length
	NoRange     bool                // requests for a range are answered with the whole body
	Whole       int                 // status for requests for a range
	Encoding    string              // header Content-Encoding, regardless of the body
	Zipped      bool                // the body is compressed with gzip, and labeled so, although not requested
	Range       string              // header Content-Range of partial answers, regardless of the range
	Changed     bool                // every byte is different, and the length is the same

	Cut   int64 // the connection breaks after this many bytes of the body; -1 means at once
	Reset bool  // it breaks by a TCP reset, which breaks all requests on the connection
	Stall int64 // the server sends nothing more after this many bytes of the body; -1 means at once
	Rate  int64 // bytes of the body a second
}

// Fault adds a fault. A request has the first fault with a matching Path and
// Times left.
func (s *Server) Fault(f Fault) {
	if f.Times == 0 {
		f.Times = -1
	}
	s.set(func() { s.faults = append(s.faults, &f) })
}

// Mend removes all faults.
func (s *Server) Mend() { s.set(func() { s.faults = nil }) }

// take returns the fault for a request, or nil.
func (s *Server) take(path string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Times != 0 && glob(f.Path, path) {
			f.Times--
			return f
		}
	}
	return nil
}

// Replace returns an Edit that replaces one text with another.
func Replace(before, after string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(before), []byte(after)) }
}

// serve answers a request as the handler does, with the fault.
func (f *Fault) serve(w *response, r *http.Request, handler http.Handler) {
	w.sleep(f.Delay)
	if f.NoRange || f.Zipped {
		r.Header.Del("Range")
	}
	rec := httptest.NewRecorder()
	switch {
	case f.Cut < 0:
		w.abort(f.Reset)
	case f.Stall < 0:
		w.hang()
	case f.Drip > 0:
		w.drip(f.Drip)
	case f.Endless:
		_, _ = io.Copy(w, filled('['))
		return
	case f.Bomb > 0:
		w.Header().Set("Content-Encoding", "gzip")
		compress(w, io.LimitReader(filled(' '), f.Bomb))
		return
	case f.Whole > 0 && r.Header.Get("Range") != "":
		rec.WriteHeader(f.Whole)
	case f.Redirect != "":
		rec.Header().Set("Location", strings.ReplaceAll(f.Redirect, "{path}", r.URL.RequestURI()))
		rec.WriteHeader(cmp.Or(f.Status, http.StatusFound))
	case f.Status != 0 || f.Body != "":
		rec.WriteHeader(cmp.Or(f.Status, http.StatusOK))
		_, _ = rec.WriteString(f.Body)
	default:
		handler.ServeHTTP(rec, r)
	}
	body := f.edited(rec.Body.Bytes())
	maps.Copy(w.Header(), f.header(rec, len(body)))
	w.WriteHeader(rec.Code)
	f.send(w, body)
}

// header returns the header of an answer with a body of this length.
func (f *Fault) header(rec *httptest.ResponseRecorder, length int) http.Header {
	h := rec.Header()
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("Content-Encoding", f.Encoding)
	set("Retry-After", f.RetryAfter)
	set("Content-Type", f.ContentType)
	if f.ContentType == "-" {
		h["Content-Type"] = nil // prevents the server from guessing it
	}
	if f.Zipped {
		h.Set("Content-Encoding", "gzip")
	}
	if rec.Code == http.StatusPartialContent {
		set("Content-Range", f.Range)
	}
	if f.Length > 0 {
		h.Set("Content-Length", strconv.FormatInt(f.Length, 10))
	} else if length != rec.Body.Len() {
		h.Del("Content-Length")
	}
	return h
}

// send sends a body up to where the fault ends it, and in parts of a twentieth of a second each if it has a rate.
func (f *Fault) send(w *response, body []byte) {
	end := int(max(f.Cut, f.Stall))
	broken := end > 0 && len(body) > end
	if broken {
		body = body[:end]
	}
	for len(body) > 0 {
		part := len(body)
		if f.Rate > 0 {
			part = min(part, int(f.Rate/20)+1)
			w.sleep(time.Duration(part) * time.Second / time.Duration(f.Rate))
		}
		if _, err := w.Write(body[:part]); err != nil {
			return
		}
		body = body[part:]
	}
	if !broken {
		return
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	if f.Stall > 0 {
		w.hang()
	}
	w.abort(f.Reset)
}

// edited returns what the fault sends in place of a body.
func (f *Fault) edited(body []byte) []byte {
	if f.Edit != nil {
		body = f.Edit(body)
	}
	if f.Corrupt && len(body) > 0 {
		body[len(body)/2] ^= 1
	}
	for i := 0; f.Changed && i < len(body); i++ {
		body[i] ^= 0xff
	}
	if f.Zipped {
		var out bytes.Buffer
		compress(&out, bytes.NewReader(body))
		body = out.Bytes()
	}
	if f.Length > 0 {
		body = body[:min(int64(len(body)), f.Length)] // net/http would reject the rest
	}
	return body
}

// compress writes what it reads, with gzip. It fails when the client disconnects.
func compress(w io.Writer, from io.Reader) {
	z := gzip.NewWriter(w)
	_, _ = io.Copy(z, from)
	_ = z.Close()
}

// A response is an answer being sent, perhaps with a fault.
type response struct {
	http.ResponseWriter
	server  *Server
	request *Request // the record of it
	conn    *conn
	done    <-chan struct{} // closed when the client has disconnected
}

func (w *response) WriteHeader(status int) {
	w.server.set(func() { w.request.Status = status })
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.request.Status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	// This is first, so that it includes everything that a client has read.
	w.server.set(func() { w.request.Bytes += int64(len(b)) })
	return w.ResponseWriter.Write(b)
}

func (w *response) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.done:
	}
}

// filled is an endless sequence of the same byte.
type filled byte

func (f filled) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(f)
	}
	return len(b), nil
}

// drip sends informational answers without end.
func (w *response) drip(every time.Duration) {
	for {
		select {
		case <-w.done:
			panic(http.ErrAbortHandler)
		case <-time.After(every):
			w.ResponseWriter.WriteHeader(http.StatusEarlyHints)
		}
	}
}

// abort ends the answer before it is complete, by a TCP reset if reset is set.
func (w *response) abort(reset bool) {
	if reset && w.conn != nil {
		w.conn.reset()
	}
	panic(http.ErrAbortHandler)
}

// hang waits until the client disconnects.
func (w *response) hang() {
	<-w.done
	panic(http.ErrAbortHandler)
}
