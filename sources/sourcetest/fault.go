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
	Limit int    // number of requests without the fault in each second

	Delay      time.Duration // wait before the answer
	Status     int           // status of the answer, without the usual body
	RetryAfter string        // header, verbatim
	Redirect   string        // redirect to this URL, where {path} stands for the requested path
	Body       string        // body of the answer
	Endless    bool          // the answer is JSON that opens brackets without end
	Bomb       int64         // the answer is this many bytes of JSON, compressed to a thousandth
	Drip       time.Duration // the answer is an endless header, with one more piece after each such interval

	Edit        func([]byte) []byte // changes the body
	Corrupt     bool                // changes one bit in the middle of the body
	ContentType string              // header; "-" means none
	Length      int64               // header Content-Length, regardless of the body, which is cut to that length
	ETag        string              // header of archives
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

	second int64 // of the last request, in Unix time
	passed int   // number of requests without the fault in that second
}

// Fault adds a fault. A request has the first fault with a matching Path and
// Times left.
func (s *Server) Fault(f Fault) {
	if f.Times == 0 {
		f.Times = -1
	}
	s.set(func() { s.faults = append(s.faults, &f) })
}

// Mend removes all faults, and stops breaking new connections.
func (s *Server) Mend() { s.set(func() { s.faults, s.breaks = nil, nil }) }

// take returns the fault for a request.
func (s *Server) take(path string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Times == 0 || !glob(f.Path, path) {
			continue
		}
		if second := time.Now().Unix(); second != f.second {
			f.second, f.passed = second, 0
		}
		if f.passed++; f.passed <= f.Limit {
			return Fault{}
		}
		f.Times--
		return *f
	}
	return Fault{}
}

// Replace returns an Edit that replaces one text with another.
func Replace(before, after string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(before), []byte(after)) }
}

// serve answers a request as the handler does, with the fault.
func (f Fault) serve(w *response, r *http.Request, handler http.Handler) {
	w.sleep(f.Delay)
	if f.NoRange || f.Zipped {
		r.Header.Del("Range")
	}
	h := w.Header()
	for name, value := range map[string]string{"ETag": f.ETag, "Content-Encoding": f.Encoding, "Retry-After": f.RetryAfter} {
		if value != "" {
			h.Set(name, value)
		}
	}
	switch {
	case f.Cut < 0:
		w.abort()
	case f.Stall < 0:
		w.hang()
	case f.Whole > 0 && r.Header.Get("Range") != "":
		w.WriteHeader(f.Whole)
	case f.Drip > 0:
		w.drip(f.Drip)
	case f.Endless:
		_, _ = io.Copy(w, filled('['))
	case f.Bomb > 0:
		h.Set("Content-Encoding", "gzip")
		compress(w, io.LimitReader(filled(' '), f.Bomb))
	case f.Redirect != "":
		h.Set("Location", strings.ReplaceAll(f.Redirect, "{path}", r.URL.RequestURI()))
		w.WriteHeader(cmp.Or(f.Status, http.StatusFound))
	case f.Status != 0 || f.Body != "":
		w.WriteHeader(cmp.Or(f.Status, http.StatusOK))
		w.Write([]byte(f.Body))
	case f.Edit != nil || f.Corrupt || f.Changed || f.Zipped:
		rec := httptest.NewRecorder()
		maps.Copy(rec.Header(), h)
		handler.ServeHTTP(rec, r)
		maps.Copy(h, rec.Header())
		body := f.edited(rec.Body.Bytes())
		if len(body) != rec.Body.Len() {
			h.Del("Content-Length")
		}
		if f.Zipped {
			h.Set("Content-Encoding", "gzip")
		}
		w.WriteHeader(rec.Code)
		w.Write(body)
	default:
		handler.ServeHTTP(w, r)
	}
}

// edited returns what the fault sends in place of a body.
func (f Fault) edited(body []byte) []byte {
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
	return body
}

// compress writes what it reads, with gzip. It fails when the client disconnects.
func compress(w io.Writer, from io.Reader) {
	z := gzip.NewWriter(w)
	_, _ = io.Copy(z, from)
	_ = z.Close()
}

// A response is an answer being sent with a fault.
type response struct {
	http.ResponseWriter
	server  *Server
	request *Request // the record of it
	fault   Fault
	conn    *conn
	done    <-chan struct{} // closed when the client has disconnected
	sent    int64
}

func (w *response) WriteHeader(status int) {
	w.server.set(func() { w.request.Status = status })
	h := w.Header()
	switch w.fault.ContentType {
	case "":
	case "-":
		h["Content-Type"] = nil // prevents the server from guessing it
	default:
		h.Set("Content-Type", w.fault.ContentType)
	}
	if w.fault.Range != "" && status == http.StatusPartialContent {
		h.Set("Content-Range", w.fault.Range)
	}
	if w.fault.Length > 0 {
		h.Set("Content-Length", strconv.FormatInt(w.fault.Length, 10))
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body. The answer may end within it.
func (w *response) Write(b []byte) (int, error) {
	if w.request.Status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	whole := len(b)
	if w.fault.Length > 0 {
		b = b[:min(int64(whole), w.fault.Length-w.sent)] // net/http would reject the rest
	}
	limit := max(w.fault.Cut, w.fault.Stall)
	if limit <= 0 || w.sent+int64(len(b)) <= limit {
		return whole, w.send(b)
	}
	_ = w.send(b[:limit-w.sent])
	http.NewResponseController(w.ResponseWriter).Flush()
	if w.fault.Stall > 0 {
		w.hang()
	}
	w.abort()
	return 0, nil
}

// send sends b, in parts of a twentieth of a second each if Rate is set.
func (w *response) send(b []byte) error {
	for len(b) > 0 {
		part := len(b)
		if w.fault.Rate > 0 {
			part = min(part, int(w.fault.Rate/20)+1)
			w.sleep(time.Duration(part) * time.Second / time.Duration(w.fault.Rate))
		}
		// Before writing, so that the count includes everything that a client has read.
		w.server.set(func() { w.request.Bytes += int64(part) })
		n, err := w.ResponseWriter.Write(b[:part])
		w.sent += int64(n)
		if err != nil {
			return err
		}
		b = b[part:]
	}
	return nil
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

// drip sends an endless header. HTTP/2 sends a header in one piece, so drip
// sends repeated informational responses instead.
func (w *response) drip(every time.Duration) {
	conn, _, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		for {
			select {
			case <-w.done:
				panic(http.ErrAbortHandler)
			case <-time.After(every):
				w.ResponseWriter.WriteHeader(http.StatusEarlyHints)
			}
		}
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Long: ")
	for err == nil {
		time.Sleep(every)
		_, err = io.WriteString(conn, "x")
	}
	panic(http.ErrAbortHandler)
}

// abort ends the answer before it is complete.
func (w *response) abort() {
	if w.fault.Reset && w.conn != nil {
		w.conn.reset()
	}
	panic(http.ErrAbortHandler)
}

// hang waits until the client disconnects.
func (w *response) hang() {
	<-w.done
	panic(http.ErrAbortHandler)
}
