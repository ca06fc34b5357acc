package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// largeBody is the size of a body, in bytes, for which a request has its own connection.
const largeBody = 1 << 20

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

	// Again is called before each further try. It changes the request, for example to what the server still lacks. An error ends
	// the tries. It may be nil.
	Again func(ctx context.Context, w *Write) error

	// Sent is called with the number of bytes of the body that were sent since the last call, or with a negative number if
	// they have to be sent again. It may be nil.
	Sent func(n int64)
}

// A Reply is the answer to a Write. Its status is below 400.
type Reply struct {
	Status int
	Document
}

// Do sends a Write. Its errors have the type *Error, and wrap a *StatusError if the server answered.
func (c *Client) Do(ctx context.Context, w Write) (*Reply, error) {
	u, err := c.begin(w.URL)
	if err != nil {
		return nil, err
	}
	var reply *Reply
	e := &effort{tries: orDefault(w.Tries, c.opts.Tries)}
	again := false
	err = c.retry(ctx, u, e, func() (progress bool, err error) {
		if again && w.Again != nil {
			left := w.Size
			if err := w.Again(ctx, &w); err != nil {
				return false, err
			}
			if u, err = c.begin(w.URL); err != nil {
				return false, err
			}
			progress = w.Size <= left-bufferSize
		}
		again = true
		body := &body{from: w.Body, size: w.Size, tell: w.Sent}
		by := &way{over: c.documents, effort: e, method: w.Method, body: body}
		if w.Size >= largeBody {
			by.over = c.archives
		}
		inner, watch := newWatch(ctx, c.opts.Timeout)
		defer watch.stop()
		watch.patience = c.opts.FirstByte // a server may verify what it has received
		body.moved = func() { watch.await(watch.window) }
		header := c.header()
		for name, values := range w.Header {
			header[name] = values
		}
		resp, sent, err := c.roundTrip(inner, watch, by, u, header)
		if err != nil {
			body.undo()
			return progress, err
		}
		a := &answer{client: c, resp: resp, asked: u, at: u, header: header, sent: sent}
		if resp.StatusCode >= 400 {
			body.undo()
			return progress, a.refusal()
		}
		defer resp.Body.Close()
		body.end(w.Size)
		if w.Method == http.MethodHead {
			resp.Body = http.NoBody
			resp.ContentLength = 0 // it is that of the contents
		}
		watch.limit(documentWindows * c.opts.Timeout)
		data, err := readDocument(watch.reader(resp.Body), resp, orDefault(w.Limit, defaultLimit))
		if err != nil {
			return progress, err
		}
		reply = &Reply{resp.StatusCode, Document{Body: data, URL: u, ContentType: resp.Header.Get("Content-Type"), Header: resp.Header, answer: a}}
		return false, nil
	})
	if err != nil {
		return nil, c.suggest(ctx, u, &Request{URL: w.URL}, err)
	}
	return reply, nil
}

// A body is what a request sends. An authorizer may send it twice. The transport may still read it when the request has
// ended, which then has no effect.
type body struct {
	from  io.ReaderAt
	size  int64
	tell  func(int64)
	moved func() // called for each piece that is sent

	mu      sync.Mutex
	current *sending // the reader that counts; nil if the request has ended
	told    int64
}

// open returns a reader for the beginning of the body.
func (b *body) open() (io.ReadCloser, error) {
	b.undo()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = &sending{io.NewSectionReader(b.from, 0, b.size), b}
	return b.current, nil
}

// undo takes back what was told about bytes that were sent.
func (b *body) undo() { b.end(0) }

// end ends the body, when so many bytes have arrived.
func (b *body) end(arrived int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = nil
	b.count(arrived - b.told)
}

func (b *body) count(n int64) {
	b.told += n
	if b.tell != nil && n != 0 {
		b.tell(n)
	}
}

// sending is a reader of a body.
type sending struct {
	from io.Reader
	body *body
}

func (s *sending) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.body.mu.Lock()
	defer s.body.mu.Unlock()
	if s.body.current != s {
		return 0, errEnded
	}
	s.body.moved()
	s.body.count(int64(n))
	return n, err
}

func (s *sending) Close() error { return nil }

var errEnded = errors.New("the request has ended")
