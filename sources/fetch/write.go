package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// A Write is a request that changes something at a server, or asks about it without its contents. It follows no
// redirects.
type Write struct {
	Method string
	URL    string
	Header http.Header // in addition to those of the client

	Body  io.ReaderAt // nil means none; it is read again for each try
	Size  int64       // of the body, in bytes
	Limit int64       // maximum size of the answer's body in bytes; 0 means 1 MiB
	Tries int         // in all; 0 means those of the Client, and 1 is for requests that must not be repeated

	// Again is called before each further try. It changes the request, for example to what the server still lacks. The
	// requests that it sends with its context belong to the try: they are sent once, and if one of them fails, the try
	// has failed. A permanent error ends the tries. Again may be nil.
	Again func(ctx context.Context, w *Write) error

	// Check judges an answer with a status below 400. Its error is that of the try. [Reply.Refused] and [Broken] return
	// errors that may be retried. It may be nil.
	Check func(*Reply) error

	// Sent is called with the number of bytes of the body that were sent since the last call, or with a negative number
	// if they have to be sent again. It may be nil.
	Sent func(n int64)
}

// A Reply is the answer to a Write. Its status is below 400.
type Reply struct {
	Status int
	Document
}

// Refused returns the error for an answer that is one in spite of its status. The message is in the body.
func (r *Reply) Refused() error { return r.answer.refusalOf(r.Body) }

// Do sends a Write. Its errors have the type *Error, and wrap a *StatusError if the server answered.
func (c *Client) Do(ctx context.Context, w Write) (*Reply, error) {
	u, err := c.begin(w.URL)
	if err != nil {
		return nil, err
	}
	var reply *Reply
	e, within := ctx.Value(triesKey{}).(*tries)
	if !within {
		e = &tries{most: cmp.Or(w.Tries, c.opts.Tries)}
	}
	again := false
	try := func() (progress bool, err error) {
		if again && w.Again != nil {
			left := w.Size
			if err := w.Again(context.WithValue(ctx, triesKey{}, e), &w); err != nil {
				return false, err
			}
			if u, err = c.begin(w.URL); err != nil {
				return false, err
			}
			progress = w.Size <= left-bufferSize
		}
		again = true
		body := &written{from: w.Body, size: w.Size, tell: w.Sent}
		defer func() {
			if err != nil {
				_ = body.end(0)
			}
		}()
		over := c.documents
		if w.Size >= largeRequest {
			over = c.archives
		}
		inner, watch := c.attempt(ctx, e)
		defer watch.stop()
		watch.limit = cmp.Or(w.Limit, defaultLimit)
		if w.Method != http.MethodGet && w.Method != http.MethodHead {
			watch.firstByte = c.opts.FirstByte // a server may verify what it has received
		}
		body.moved = func() { watch.await(c.opts.Timeout) }
		header := c.header()
		for name, values := range w.Header {
			header[name] = values
		}
		req, err := newRequest(inner, u, header)
		if err != nil {
			return progress, err
		}
		req.Method = w.Method
		if body.from != nil {
			req.GetBody, req.ContentLength = body.open, body.size
			req.Body, _ = req.GetBody()
		}
		resp, err := over.RoundTrip(req)
		if err != nil {
			return progress, cmp.Or(body.end(0), err)
		}
		a := &answer{client: c, resp: resp, asked: u, at: u, header: header}
		if resp.StatusCode >= 400 {
			return progress, a.refusal()
		}
		defer resp.Body.Close()
		_ = body.end(w.Size)
		if w.Method == http.MethodHead {
			resp.Body = http.NoBody
			resp.ContentLength = 0 // it is that of the contents
		}
		if watch.firstByte > 0 { // some servers send a few bytes while they verify
			watch.slowly(watch.firstByte)
		}
		watch.budget = documentWindows*c.opts.Timeout + watch.firstByte
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			return progress, err
		}
		reply = &Reply{resp.StatusCode, Document{Body: data, URL: u, ContentType: resp.Header.Get("Content-Type"), Header: resp.Header, answer: a}}
		if w.Check != nil {
			err = w.Check(reply)
		}
		return progress, err
	}
	if within {
		_, err = try()
		return reply, err // the request that it belongs to adds its URL
	}
	if err = c.retry(ctx, u, e, try); err != nil {
		return nil, c.suggest(ctx, u, &Request{URL: w.URL}, err)
	}
	return reply, nil
}

// triesKey is the key of the tries to which requests with a context belong.
type triesKey struct{}

// A written is what a request sends. An authorizer may send it twice. The transport may still read it when the request
// has ended, which then has no effect.
type written struct {
	from  io.ReaderAt
	size  int64
	tell  func(int64)
	moved func() // called for each piece that is sent

	mu      sync.Mutex
	current *sending // the reader that counts; nil if the request has ended
	told    int64
	err     error // of from
}

// open returns a reader for the beginning of the body.
func (b *written) open() (io.ReadCloser, error) {
	_ = b.end(0)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = &sending{io.NewSectionReader(b.from, 0, b.size), b}
	return b.current, nil
}

// end ends the body, when so many bytes have arrived. It returns the error of the contents, if there was one.
func (b *written) end(arrived int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = nil
	b.count(arrived - b.told)
	return b.err
}

func (b *written) count(n int64) {
	b.told += n
	if b.tell != nil && n != 0 {
		b.tell(n)
	}
}

// sending is a reader of a body.
type sending struct {
	from io.Reader
	body *written
}

// Read implements [io.Reader].
func (s *sending) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	b := s.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current != s {
		return 0, errEnded
	}
	b.moved()
	b.count(int64(n))
	if errors.Is(err, io.EOF) && b.told < b.size {
		err = fmt.Errorf("the contents end after %d of %d bytes: %w", b.told, b.size, io.ErrUnexpectedEOF)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// Close implements [io.Closer].
func (s *sending) Close() error { return nil }
