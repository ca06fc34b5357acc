package fetch

import (
	"net/http"
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
		h = &host{slots: semaphore.NewWeighted(int64(c.opts.PerHost))}
		c.hosts[key] = h
	}
	return h
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
