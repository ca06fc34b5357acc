package fetch

import (
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A Trace records the requests of a context, with their answers. It is safe for concurrent use.
// The zero Trace is ready to use.
type Trace struct {
	mu  sync.Mutex
	all []*Exchange
}

// An Exchange is a request with its answer. A redirect and the request that follows it are two.
type Exchange struct {
	URL         string        // without user information and query
	Host        string        // host and port, as the URL has them
	Status      int           // 0 if there was no answer
	Wait        time.Duration // until the answer began, or failed
	Took        time.Duration // until the last byte that was read
	Bytes       int64         // that were read, before decompression
	Location    string        // target of a redirect, without user information and query
	ContentType string
	Tagged      bool // whether the answer has an entity tag or a modification date

	Credentials bool   // whether a token, or a user and password, was sent
	Proxy       string // host and port of the proxy; empty if there is none

	Authority       string // name of the certificate authority; empty without TLS
	Issued, Expires time.Time

	at            *url.URL
	asked, answer http.Header
}

type traced struct{}

// Record returns a context whose requests t records.
func (t *Trace) Record(ctx context.Context) context.Context {
	return context.WithValue(ctx, traced{}, t)
}

// Exchanges returns the exchanges so far, in the order of the requests.
func (t *Trace) Exchanges() []Exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Exchange, len(t.all))
	for i, e := range t.all {
		all[i] = *e
	}
	return all
}

// record begins an exchange, if a trace records ctx. The returned function completes it with the
// answer, and whether the request was sent at all. It must be called.
func record(ctx context.Context, u *url.URL, asked http.Header, proxy *url.URL) (answered func(resp *http.Response, connected bool)) {
	t, ok := ctx.Value(traced{}).(*Trace)
	if !ok {
		return func(*http.Response, bool) {}
	}
	start := time.Now()
	e := &Exchange{URL: bare(u), Host: u.Host, at: u, asked: asked}
	if proxy != nil {
		e.Proxy = proxy.Host
	}
	t.mu.Lock()
	t.all = append(t.all, e)
	t.mu.Unlock()
	return func(resp *http.Response, connected bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		e.Credentials = connected && asked.Get("Authorization") != ""
		e.Wait = time.Since(start)
		e.Took = e.Wait
		if resp != nil {
			e.read(resp)
			resp.Body = &tracedBody{resp.Body, t, e, start}
		}
	}
}

// read takes what the head of an answer shows.
func (e *Exchange) read(resp *http.Response) {
	e.Status, e.ContentType, e.answer = resp.StatusCode, Printable(resp.Header.Get("Content-Type")), resp.Header
	e.Tagged = resp.Header.Get("ETag") != "" || resp.Header.Get("Last-Modified") != ""
	if redirects3xx(resp) {
		if to, err := Resolve(e.at, resp.Header.Get("Location")); err == nil {
			e.Location = bare(to)
		}
	}
	if resp.TLS == nil || len(resp.TLS.VerifiedChains) == 0 {
		return
	}
	chain := resp.TLS.VerifiedChains[0]
	e.Issued, e.Expires = chain[0].NotBefore, chain[0].NotAfter
	e.Authority = strings.Join(strings.Fields(Printable(authorityName(chain[len(chain)-1]))), " ")
}

// authorityName returns the name of a certificate authority for people.
func authorityName(c *x509.Certificate) string {
	if name := c.Subject.CommonName; name != "" {
		return name
	}
	return c.Subject.String()
}

// A tracedBody counts the bytes of an answer.
type tracedBody struct {
	io.ReadCloser
	trace *Trace
	e     *Exchange
	start time.Time
}

// Read implements [io.Reader].
func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.trace.mu.Lock()
	defer b.trace.mu.Unlock()
	b.e.Bytes += int64(n)
	b.e.Took = time.Since(b.start)
	return n, err
}
