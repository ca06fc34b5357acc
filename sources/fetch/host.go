package fetch

import (
	"context"
	"errors"
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
	key      string        // HOST:PORT
	archives chan struct{} // holds one item for each archive arriving
	seats    chan struct{} // holds one item for each request that has a seat, or is the next to get one
	asks     atomic.Bool   // for a client certificate, and there is none
	speaks1  atomic.Bool   // has answered archives over HTTP/1.1
	speaks2  atomic.Bool   // has answered over HTTP/2
	modern   atomic.Bool   // speaks HTTP/2 alone

	mu       sync.Mutex
	standing standing      // as far as this process has seen
	waited   time.Time     // up to which this process has waited
	told     time.Time     // of the last event about trouble with the host
	opening  chan struct{} // closed when the first connection stands or has failed; nil if none is being opened
	opened   bool          // a connection has stood
}

func (c *Client) host(u *url.URL) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := hostPort(u)
	h, ok := c.hosts[key]
	if !ok {
		h = &host{key: key, archives: make(chan struct{}, c.opts.PerHost), seats: make(chan struct{}, seats)}
		c.hosts[key] = h
	}
	return h
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
	stay  bool  // whether it leads to one host only
	plain bool  // whether redirects from https to http are followed, without credentials
	seat  *seat // nil if none is needed

	ctx     context.Context // ends waiting for turns
	client  *Client         // nil if no turns are needed
	host    *host           // whose turn it is
	since   time.Time       // it has been
	release func()
}

// newWay is the way to an archive, which takes a turn at each host on it.
func (c *Client) newWay(ctx context.Context, s *seat) *way {
	return &way{over: c.archives, plain: true, seat: s, ctx: ctx, client: c, release: func() {}}
}

// enter waits until it is the way's turn at the host of u. A seat is a turn as well.
// The turn before ends: as no request waits for one while it has another, none waits forever.
func (w *way) enter(u *url.URL) error {
	if w.client == nil {
		_, err := w.seat.take(w.ctx, u)
		return err
	}
	h := w.client.host(u)
	if h == w.host {
		return nil
	}
	w.end()
	seated, err := w.seat.take(w.ctx, u)
	if err == nil && !seated {
		w.release, err = w.turn(h, u)
	}
	if err != nil {
		return err
	}
	w.host, w.since = h, time.Now()
	return nil
}

// turn waits until one more archive may arrive from the host.
func (w *way) turn(h *host, u *url.URL) (release func(), err error) {
	release, ok := h.takeNow()
	if ok {
		return release, nil
	}
	w.client.tell(Event{URL: bare(u), Host: u.Host})
	release, err = h.take(w.ctx)
	if err != nil {
		return func() {}, err
	}
	return release, nil
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
