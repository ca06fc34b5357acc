package fetch

import (
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// A host is the state shared by all requests to one host and port.
type host struct {
	slots *semaphore.Weighted // for the archives being downloaded
	asks  atomic.Bool         // requests a client certificate, but none is configured
	lost  atomic.Bool         // could not be reached by all tries of a request, and has not answered since

	opening atomic.Bool   // whether a request has begun to open the first connection for documents
	opened  chan struct{} // closed when that is open or has failed
	open    func()        // closes it

	mu       sync.Mutex
	until    time.Time // the end of the last pause; zero if there was none
	waited   bool      // whether a request has waited for that
	pauses   int       // number of pauses since the last good answer
	reported time.Time // time of the last event about an unavailable host
}

// host returns the state of the host of u.
func (c *Client) host(u *url.URL) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := hostPort(u)
	h, ok := c.hosts[key]
	if !ok {
		h = &host{slots: semaphore.NewWeighted(int64(c.opts.PerHost)), opened: make(chan struct{})}
		h.open = sync.OnceFunc(func() { close(h.opened) })
		c.hosts[key] = h
	}
	return h
}

// opening is the link that lets the first request to a host open a connection before others are sent, because over
// HTTP/2 all can share it: otherwise each of the first requests would open its own. The others wait only briefly.
func (c *Client) opening(next http.RoundTripper) http.RoundTripper {
	return link(func(req *http.Request) (*http.Response, error) {
		h := c.host(req.URL)
		if !h.opening.Swap(true) {
			defer h.open()
			trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { h.open() }}
			return next.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		}
		select {
		case <-h.opened:
		case <-time.After(maxOpening):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
		return next.RoundTrip(req)
	})
}

// A slot is the permission to download an archive from a host.
type slot struct {
	host  *host     // nil while there is none
	since time.Time // when the host gave it
}

// limiting is the link that limits the archives being downloaded from one host. A request waits for a slot at its host,
// and first releases the slot that its attempt has at another one. As no request waits while it has one, there is no
// deadlock.
func (c *Client) limiting(next http.RoundTripper) http.RoundTripper {
	return link(func(req *http.Request) (*http.Response, error) {
		h, s := c.host(req.URL), attemptOf(req).slot
		if s == nil || s.host == h {
			return next.RoundTrip(req)
		}
		s.release()
		if !h.slots.TryAcquire(1) {
			c.emit(Event{URL: bare(req.URL), Host: req.URL.Host})
			if err := h.slots.Acquire(req.Context(), 1); err != nil {
				return nil, err
			}
		}
		s.host, s.since = h, time.Now()
		return next.RoundTrip(req)
	})
}

func (s *slot) release() {
	if s.host != nil {
		s.host.slots.Release(1)
		s.host = nil
	}
}
