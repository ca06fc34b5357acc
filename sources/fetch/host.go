package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A host is what all requests to one host and port have in common.
type host struct {
	archives chan struct{} // holds one item for each archive arriving
	asks     atomic.Bool   // for a client certificate, and there is none
	speaks1  atomic.Bool   // has answered archives over HTTP/1.1
	speaks2  atomic.Bool   // has answered over HTTP/2
	modern   atomic.Bool   // speaks HTTP/2 alone

	mu      sync.Mutex
	until   time.Time     // before which no request is to be sent
	opening chan struct{} // closed when the first connection stands or has failed; nil if none is being opened
	opened  bool          // a connection has stood
}

func (c *Client) host(u *url.URL) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := hostPort(u)
	h, ok := c.hosts[key]
	if !ok {
		h = &host{archives: make(chan struct{}, c.opts.PerHost)}
		c.hosts[key] = h
	}
	return h
}

// pauseFor is how long to wait before the next request to the host of u: for what it has asked
// this process, or another one.
func (c *Client) pauseFor(u *url.URL) time.Duration {
	d := c.host(u).pause()
	if shared := c.shared.Load(); shared != nil {
		if other := time.Until((*shared).Until(hostPort(u))); other > d {
			return min(other, maxWait) + rand.N(spread)
		}
	}
	return d
}

// leave has the host of u left alone for d, and reports whether that is news.
func (c *Client) leave(u *url.URL, d time.Duration) (news bool) {
	if shared := c.shared.Load(); shared != nil {
		(*shared).Leave(hostPort(u), time.Now().Add(d))
	}
	return c.host(u).leave(d)
}

// leave leaves the host alone for d, and reports whether that is news: other requests
// may be waiting for it already.
func (h *host) leave(d time.Duration) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	news = now.After(h.until)
	if until := now.Add(d); until.After(h.until) {
		h.until = until
	}
	return news
}

// pause is how long to wait before the next request to the host. Waiting
// requests are spread over time, so that they are not all sent at once.
func (h *host) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := time.Until(h.until)
	if d <= 0 {
		return 0
	}
	return d + rand.N(spread)
}

// open waits until the first connection to the host stands, which over HTTP/2 all requests
// share: without the wait, each of the first requests would open one. It waits once, and
// not long: whether there is a connection then or not, requests go on. The caller that
// opens the connection gets a request that reports when it stands, and calls done when it
// is answered or has failed.
func (h *host) open(req *http.Request) (_ *http.Request, done func(), err error) {
	h.mu.Lock()
	opening, opened := h.opening, h.opened
	if !opened && opening == nil {
		h.opening = make(chan struct{})
	}
	h.mu.Unlock()
	switch {
	case opened:
		return req, func() {}, nil
	case opening == nil:
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { h.endOpening(true) }}
		return req.WithContext(httptrace.WithClientTrace(req.Context(), trace)), func() { h.endOpening(false) }, nil
	}
	late := time.NewTimer(maxOpening)
	defer late.Stop()
	select {
	case <-opening:
	case <-late.C:
	case <-req.Context().Done():
		return nil, nil, req.Context().Err()
	}
	return req, func() {}, nil
}

// endOpening lets the requests go on that wait in open.
func (h *host) endOpening(stands bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = h.opened || stands
	if h.opening != nil {
		close(h.opening)
		h.opening = nil
	}
}

// take waits until one more archive may arrive from the host, and returns the
// function to call when it has.
func (h *host) take(ctx context.Context) (release func(), err error) {
	select {
	case h.archives <- struct{}{}:
		return func() { <-h.archives }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A way is how a request gets to who answers it.
type way struct {
	over  http.RoundTripper
	stay  bool // whether it leads to one host only
	plain bool // whether redirects from https to http are followed, without credentials

	ctx     context.Context // ends waiting for turns
	client  *Client         // nil if no turns are needed
	host    *host           // whose turn it is
	since   time.Time       // it has been
	release func()
}

// newWay is the way to an archive, which takes a turn at each host on it.
func (c *Client) newWay(ctx context.Context) *way {
	return &way{over: c.archives, plain: true, ctx: ctx, client: c, release: func() {}}
}

// enter waits until it is the way's turn at the host of u. The turn before ends:
// as nobody waits for one while he has another, nobody waits forever.
func (w *way) enter(u *url.URL) error {
	if w.client == nil || w.client.host(u) == w.host {
		return nil
	}
	w.end()
	w.host = w.client.host(u)
	release, ok := w.host.takeNow()
	if !ok {
		w.client.tell(Event{URL: bare(u), Host: u.Host})
		var err error
		if release, err = w.host.take(w.ctx); err != nil {
			return err
		}
	}
	w.release, w.since = release, time.Now()
	return nil
}

func (w *way) end() {
	w.release()
	w.release, w.host = func() {}, nil
}

// takeNow is take for those who can do without.
func (h *host) takeNow() (release func(), ok bool) {
	select {
	case h.archives <- struct{}{}:
		return func() { <-h.archives }, true
	default:
		return nil, false
	}
}

// retryAfter is how long the server asks us to wait: 0 if it does not, or says
// it in a way that nobody understands.
func retryAfter(header http.Header, now time.Time) time.Duration {
	s := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(s, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) { // then it is the most there is
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
