package fetch

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// A host is the state shared by all requests to one host and port.
type host struct {
	key      string              // HOST:PORT
	archives *semaphore.Weighted // limits the archives being downloaded
	asks     atomic.Bool         // requests a client certificate, but none is configured
	lost     atomic.Bool         // could not be reached by all tries of a request, and has not answered since

	opening    atomic.Bool   // whether a request has begun to open the first connection
	opened     chan struct{} // closed when that is open or has failed
	endOpening func()        // closes it

	mu     sync.Mutex
	until  time.Time // the end of the last pause; zero if there was none
	waited bool      // whether a request has waited for that
	pauses int       // number of pauses since the last good answer
	told   time.Time // time of the last event about trouble with the host
}

func (c *Client) host(u *url.URL) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := hostPort(u)
	h, ok := c.hosts[key]
	if !ok {
		h = &host{key: key, archives: semaphore.NewWeighted(int64(c.opts.PerHost)), opened: make(chan struct{})}
		h.endOpening = sync.OnceFunc(func() { close(h.opened) })
		c.hosts[key] = h
	}
	return h
}

// open waits until the first connection to the host is open or has failed, because
// over HTTP/2 all requests can share it: otherwise each of the first requests would
// open its own. It waits only briefly. One caller opens the connection. It gets a
// request that reports when the connection is open, and must call done when that
// request has been answered or has failed.
func (h *host) open(req *http.Request) (_ *http.Request, done func(), err error) {
	if !h.opening.Swap(true) {
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { h.endOpening() }}
		return req.WithContext(httptrace.WithClientTrace(req.Context(), trace)), h.endOpening, nil
	}
	select {
	case <-h.opened:
	case <-time.After(maxOpening):
	case <-req.Context().Done():
		return nil, nil, req.Context().Err()
	}
	return req, func() {}, nil
}

// hasRoom reports whether enough connections are left, of those that the host permits, for
// more of them to be worth it. Otherwise other archives use them already.
func (h *host) hasRoom(most int) bool {
	spare := int64(math.Ceil(float64(most) * (1 - 1/minGain)))
	if !h.archives.TryAcquire(spare) {
		return false
	}
	h.archives.Release(spare)
	return true
}

// A way describes how a request reaches the server that answers it.
type way struct {
	over   http.RoundTripper
	stay   bool // whether redirects to other hosts are errors
	plain  bool // whether redirects from https to http are followed, without credentials
	effort *effort
	method string        // empty means GET
	body   *body         // nil means none
	like   *http.Request // whose body is sent; nil means body

	turns bool      // whether the request takes a turn at each host on the way
	host  *host     // the host at which the request has its turn; may be nil
	since time.Time // the start of the turn
}

// enter waits for a turn at the host of u. The previous turn ends first: because
// no request waits for a turn while it holds one, there is no deadlock.
func (w *way) enter(ctx context.Context, c *Client, u *url.URL) error {
	h := c.host(u)
	if !w.turns || h == w.host {
		return nil
	}
	w.end()
	if !h.archives.TryAcquire(1) {
		c.tell(Event{URL: bare(u), Host: u.Host})
		if err := h.archives.Acquire(ctx, 1); err != nil {
			return err
		}
	}
	w.host, w.since = h, time.Now()
	return nil
}

// end ends the turn, if there is one.
func (w *way) end() {
	if w.host != nil {
		w.host.archives.Release(1)
		w.host = nil
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
