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

// A host is the state shared by all requests to one host and port.
type host struct {
	key      string        // HOST:PORT
	archives chan struct{} // holds one item for each archive being downloaded
	seats    chan struct{} // holds one item for each request that has a seat, or is next in line for one
	asks     atomic.Bool   // requests a client certificate, but none is configured
	speaks1  atomic.Bool   // has answered a request for an archive over HTTP/1.1
	speaks2  atomic.Bool   // has answered over HTTP/2
	modern   atomic.Bool   // supports only HTTP/2

	mu       sync.Mutex
	standing standing      // as observed by this process
	waited   time.Time     // the end of the last pause that this process waited for
	told     time.Time     // time of the last event about trouble with the host
	opening  chan struct{} // closed when the first connection is open or has failed; nil if none is being opened
	opened   bool          // a connection has been open
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

// open waits until the first connection to the host is open, because over
// HTTP/2 all requests can share it: otherwise each of the first requests would
// open its own. It waits only once and only briefly; the request then continues
// with or without a connection. One caller opens the connection. It gets a
// request that reports when the connection is open, and must call done when
// that request has been answered or has failed.
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

// endOpening ends the wait of the requests in open.
func (h *host) endOpening(stands bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = h.opened || stands
	if h.opening != nil {
		close(h.opening)
		h.opening = nil
	}
}

// take waits until another archive may be downloaded from the host. The caller
// must call release after the download.
func (h *host) take(ctx context.Context) (release func(), err error) {
	select {
	case h.archives <- struct{}{}:
		return func() { <-h.archives }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A way describes how a request reaches the server that answers it.
type way struct {
	over  http.RoundTripper
	stay  bool  // whether redirects to other hosts are errors
	plain bool  // whether redirects from https to http are followed, without credentials
	seat  *seat // nil if the request needs none

	ctx     context.Context // ends the wait for turns
	client  *Client         // nil if the request needs no turns
	host    *host           // the host at which the request has its turn
	since   time.Time       // the start of the turn
	release func()
}

// newWay returns the way to an archive. The request takes a turn at each host
// on the way.
func (c *Client) newWay(ctx context.Context, s *seat) *way {
	return &way{over: c.archives, plain: true, seat: s, ctx: ctx, client: c, release: func() {}}
}

// enter waits for a turn at the host of u. A seat counts as a turn. The
// previous turn ends first: because no request waits for a turn while it holds
// one, there is no deadlock.
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

// turn waits until another archive may be downloaded from the host.
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

// takeNow is like take, but returns false instead of waiting.
func (h *host) takeNow() (release func(), ok bool) {
	select {
	case h.archives <- struct{}{}:
		return func() { <-h.archives }, true
	default:
		return nil, false
	}
}

// retryAfter returns the wait that the server requests. It is 0 if there is
// none, or it cannot be parsed.
func retryAfter(header http.Header, now time.Time) time.Duration {
	s := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(s, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) { // out of range returns the maximum
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
