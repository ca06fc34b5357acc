package fetch

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// A Call is a call of a library that sends its requests through the client, which is an [http.RoundTripper]: the
// library knows the protocol, and the limits, pauses, credentials, tries and reports are those of the client. The
// library's own tries are turned off.
type Call struct {
	URL   string // that messages name
	Limit int64  // maximum size of an answer's body in bytes; 0 means 1 MiB

	// Sent is called with the number of bytes of bodies that were sent since the last call, or with a negative number
	// if they have to be sent again. It may be nil.
	Sent func(n int64)

	stay bool // whether a redirect is a refusal; otherwise the library gets it
}

// Call calls f until it succeeds, returns a permanent error, or has failed too often. The requests with the context
// that f gets belong to the call. If one of them failed, the error is that of the request, and not what a library made
// of it: it has the type *Error, and wraps a *StatusError if the server answered. If the body of a request could not be
// read, that error is returned. Other errors of f are returned as by [Quoting].
func (c *Client) Call(ctx context.Context, call Call, f func(context.Context) error) error {
	u, err := c.begin(call.URL)
	if err != nil {
		return err
	}
	var own error // is final, and not that of a request
	err = c.retry(ctx, u, tries{most: c.opts.Tries}, func(a *attempt) (bool, error) {
		t := &try{call: call}
		a.try = t
		err := f(a.ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case err == nil:
			return false, nil
		case t.unread != nil:
			own = t.unread
		case t.err == nil:
			own = Quoting(err)
		}
		t.count(-t.told)
		if own != nil {
			return false, nil
		}
		return false, t.err
	})
	return cmp.Or(own, err)
}

// Send sends a request as a [Client.Call] for which a redirect is a refusal. It returns the header and the body of the
// answer. GetBody of the request returns the body for each try.
func (c *Client) Send(call Call, req *http.Request) (header http.Header, body []byte, err error) {
	call.URL, call.stay = req.URL.String(), true
	err = c.Call(req.Context(), call, func(ctx context.Context) error {
		req := req.Clone(ctx)
		if req.GetBody != nil {
			req.Body, _ = req.GetBody()
		}
		resp, err := c.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if header = resp.Header; resp.StatusCode >= 300 {
			return errors.New(resp.Status) // the error of the call is that of the request
		}
		body, err = io.ReadAll(resp.Body)
		return err
	})
	return header, body, err
}

// A try is one of those of a Call. The attempt in the context of its requests has it.
type try struct {
	call Call

	mu     sync.Mutex
	told   int64     // number of bytes that Sent was called with
	body   *sentBody // that is being sent, or nil
	err    error     // of the last request; nil if it succeeded
	unread error     // of a body that could not be read
}

// end records how a request has ended. The try may be nil.
func (t *try) end(err error) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

// count reports bytes that were sent. The caller holds t.mu.
func (t *try) count(n int64) {
	t.told += n
	if t.call.Sent != nil && n != 0 {
		t.call.Sent(n)
	}
}

// RoundTrip implements [http.RoundTripper], for libraries. It sends the request once, without following redirects, and
// limits the time and the size of the answer. An answer after which the same request may succeed later is an error, so
// that [Client.Call] repeats it.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	t := &try{}
	if a, ok := req.Context().Value(attemptKey{}).(*attempt); ok && a.try != nil {
		t = a.try
	}
	resp, err := c.send(t, req)
	if err == nil && (resp.StatusCode >= 400 || t.call.stay && resp.StatusCode >= 300) {
		err = (&answer{client: c, resp: resp, at: req.URL}).refusal()
	}
	t.end(err)
	if status, refused := errors.AsType[*StatusError](err); err == nil || refused && !status.Temporary() && resp != nil {
		return resp, nil
	}
	return nil, err
}

// send sends a request of a try, with limits of its own.
func (c *Client) send(t *try, req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	u, err := c.begin(req.URL.String())
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	a := c.attempt(req.Context(), u)
	a.archive = req.ContentLength >= largeRequest
	a.try, a.limit = t, cmp.Or(t.call.Limit, defaultLimit)
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		a.firstByte = c.opts.FirstByte // a server may verify what it has received
	}
	out := req.WithContext(a.ctx)
	out.URL = u
	if req.Body != nil && req.Body != http.NoBody {
		out.Body = t.begin(&sentBody{req.Body, a})
	}
	if req.GetBody != nil { // an authorizer may send the request twice
		out.GetBody = func() (io.ReadCloser, error) {
			from, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			return t.begin(&sentBody{from, a}), nil
		}
	}
	resp, err := c.chain.RoundTrip(out)
	t.arrived(a)
	if err != nil {
		a.stop()
		return nil, err
	}
	if a.firstByte > 0 { // some servers send a few bytes while they verify
		a.slowly(a.firstByte)
	}
	a.budget = documentWindows*c.opts.Timeout + a.firstByte
	return resp, nil
}

// begin makes body the one that is sent. What was sent before has not arrived, as a try sends no two bodies.
func (t *try) begin(body *sentBody) *sentBody {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(-t.told)
	t.body = body
	return body
}

// arrived ends the body of an attempt, if it has one. If that failed, so does the try, after which nothing counts.
func (t *try) arrived(a *attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.body = nil
	if a.timer != nil { // unless no request was sent
		a.timer.Stop()
	}
}

// A sentBody is the body of a request. The transport may still read it when another one is sent or the request has
// ended, which then has no effect.
type sentBody struct {
	io.ReadCloser
	of *attempt
}

// Read implements [io.Reader].
func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	t := b.of.try
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.body != b {
		return 0, io.ErrClosedPipe
	}
	if err != nil && err != io.EOF {
		t.unread = err
	}
	b.of.timer.Reset(max(b.of.window, b.of.firstByte)) // until the server takes more, or answers
	t.count(int64(n))
	return n, err
}
