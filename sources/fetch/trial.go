package fetch

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"
)

// A Trial describes a request for a part of an archive, to find out what a server supports.
type Trial struct {
	URL         string
	First, Last int64         // the range to request, in bytes
	IfRange     string        // the validator of an earlier answer; empty means none
	Anonymous   bool          // without credentials
	Limit       int64         // maximum number of bytes to read, whatever the server sends
	Within      time.Duration // reading ends after this time; 0 means no limit
}

// A Sample is the answer to a Trial.
type Sample struct {
	Status    int    // 200 or 206
	First     int64  // the first byte that the answer contains
	Total     int64  // the size of the archive in bytes; -1 if the server does not state it
	Validator string // for IfRange; empty if the server sends none, or TooNew is set
	TooNew    bool   // the modification date is too recent to identify the archive
	Head      []byte // the beginning of the body
	Bytes     int64  // that were read
	Took      time.Duration
}

// Try sends the request of a trial once, as a download would, and reads a limited part of the answer. Its
// errors are those of [Client.Download].
func (c *Client) Try(ctx context.Context, t Trial) (Sample, error) {
	u, err := c.begin(t.URL)
	if err != nil {
		return Sample{}, err
	}
	sample, err := c.try(ctx, u, t)
	if err != nil {
		return Sample{}, c.suggest(ctx, u, nil, &Error{URL: bare(u), Tries: 1, Err: err})
	}
	return sample, nil
}

// try sends the request, and returns the error of its only try.
func (c *Client) try(ctx context.Context, u *url.URL, t Trial) (s Sample, err error) {
	d := download{client: c, total: -1, validator: t.IfRange}
	if !t.Anonymous {
		if d.authorization, err = c.archiveCredentials(ctx, u); err != nil {
			return s, err
		}
	}
	header := d.header(false)
	header.Set("Range", fmt.Sprintf("bytes=%d-%d", t.First, t.Last))
	if t.IfRange != "" {
		header.Set("If-Range", t.IfRange)
	}
	ctx, w := newWatch(ctx, c.opts.Timeout)
	defer w.stop()
	w.patience = c.opts.FirstByte
	a, err := c.send(ctx, w, &way{over: c.archives, plain: true, effort: &effort{tries: 1}}, u, header, defaultRedirects)
	if err != nil {
		return s, err
	}
	if !a.brings() {
		return s, a.fail(a.refusal())
	}
	defer a.resp.Body.Close()
	s = Sample{Status: a.resp.StatusCode, Total: a.resp.ContentLength, Validator: validator(a.resp.Header)}
	s.TooNew = s.Validator == "" && a.resp.Header.Get("Last-Modified") != "" && a.resp.Header.Get("Date") != ""
	if s.Status == http.StatusPartialContent {
		if _, s.Total, err = d.checkRange(a.resp, t.First, -1); err != nil {
			return s, a.fail(err)
		}
		s.First = t.First
	}
	if err := s.read(w.reader(a.resp.Body), t); err != nil {
		return s, a.fail(err)
	}
	if s.First == 0 {
		err = a.insteadOfArchive(s.Head[:min(len(s.Head), maxPreamble)])
	}
	return s, a.fail(err)
}

// read reads the body within the limits of the trial.
func (s *Sample) read(body io.Reader, t Trial) error {
	start, buf := time.Now(), make([]byte, bufferSize)
	for s.Bytes < t.Limit && (t.Within == 0 || time.Since(start) < t.Within) {
		n, err := body.Read(buf[:min(int64(len(buf)), t.Limit-s.Bytes)])
		s.Bytes += int64(n)
		s.Took = time.Since(start)
		if more := maxWords - len(s.Head); more > 0 {
			s.Head = append(s.Head, buf[:min(n, more)]...)
		}
		if err != nil {
			return unlessEnd(err)
		}
	}
	return nil
}

// Unchanged repeats the request of an exchange, on the condition that the document has changed. It reports
// whether the server answers that it hasn't.
func (c *Client) Unchanged(ctx context.Context, e Exchange) (bool, error) {
	if !e.Tagged || c.opts.Offline {
		return false, nil
	}
	header := http.Header{}
	maps.Copy(header, e.asked)
	for from, to := range map[string]string{"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"} {
		if value := e.answer.Get(from); value != "" {
			header.Set(to, value)
		}
	}
	ctx, w := newWatch(ctx, c.opts.Timeout)
	defer w.stop()
	a, err := c.send(ctx, w, &way{over: c.documents, stay: true, effort: &effort{tries: 1}}, e.at, header, 0)
	if err != nil {
		return false, &Error{URL: e.URL, Tries: 1, Err: err}
	}
	a.resp.Body.Close()
	return a.resp.StatusCode == http.StatusNotModified, nil
}
