package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A host is unavailable if it is overloaded or unreachable: it answers 429 or 503, requests a wait, or rejects
// connections. All requests to it pause together. When the pause is over, the request that caused it is sent first, and
// the others at random times. The first one that is refused starts the next pause, and those that were not sent yet
// wait again. So a host that is still unavailable gets few requests.

// An unavailable error is that of a host as a whole, not of a single request.
type unavailable struct {
	error
	host  *host
	after time.Duration // the wait that the host requested; 0 if it requested none
}

func (u *unavailable) Unwrap() error { return u.error }

// pausing is the link that waits until the pause of a host is over, and records whether the host is available.
func (c *Client) pausing(next http.RoundTripper) http.RoundTripper {
	return link(func(req *http.Request) (*http.Response, error) {
		h := c.host(req.URL)
		if err := c.wait(req.Context(), req.URL, h, attemptOf(req).tries); err != nil {
			return nil, err
		}
		resp, err := next.RoundTrip(req)
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && temporary(err) {
			return nil, &unavailable{error: err, host: h}
		}
		if err != nil {
			return nil, err
		}
		c.answered.Store(true)
		h.lost.Store(false)
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			h.mu.Lock()
			h.pauses = 0
			h.mu.Unlock()
		}
		return resp, nil
	})
}

// A PausedError is a request that was not sent, because its host was unavailable before.
type PausedError struct {
	Host  string
	Until time.Time // when requests are sent again
}

func (e *PausedError) Error() string {
	at := e.Until.UTC().Format("15:04:05 UTC")
	return fmt.Sprintf("%s was overloaded or could not be reached, so the next request is sent at %s", e.Host, at)
}

// wait waits until a request may be sent to the host of u, but not much longer than maxWait.
func (c *Client) wait(ctx context.Context, u *url.URL, h *host, t *tries) error {
	begun := time.Now()
	for until, waits := h.pauseOf(t); waits && time.Since(begun) < maxWait; until, waits = h.pauseOf(t) {
		pause := time.Until(until)
		if !t.first {
			pause += rand.N(spread)
		}
		t.first = false
		if c.opts.MaxPause > 0 && pause > c.opts.MaxPause {
			return &PausedError{Host: u.Host, Until: until}
		}
		if !h.report() {
			c.emit(Event{URL: bare(u), Host: u.Host, AtMost: pause})
		}
		if err := c.opts.Sleep(ctx, pause); err != nil {
			return err
		}
		h.mu.Lock()
		h.waited = h.waited || h.until.Equal(until)
		h.mu.Unlock()
	}
	return nil
}

// pauseOf returns the end of the pause, and whether a request with these tries waits for it. For its last try it does
// not.
func (h *host) pauseOf(t *tries) (until time.Time, waits bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.host != h {
		t.host, t.least = h, h.pauses
	}
	t.least = min(t.least, h.pauses)
	t.missed = h.pauses - t.least
	return h.until, h.paused() && t.missed < max(1, t.most-1)
}

// paused reports whether there is a pause. The caller holds h.mu.
func (h *host) paused() bool { return !h.waited && h.until.After(time.Now()) }

// pause starts a pause of length d, unless one has started, and returns the time left. If the host requested d, the
// pause is at least that long.
func (h *host) pause(t *tries, d time.Duration, requested bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, paused := time.Now(), h.paused()
	if paused && (!requested || !now.Add(d).After(h.until)) {
		return h.until.Sub(now)
	}
	if !paused {
		h.pauses++
		t.first = !requested // the host may have requested the same wait of other machines
	}
	h.until, h.waited = now.Add(d), false
	return d
}

// recent reports whether the host was unavailable a short time ago.
func (h *host) recent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until.Add(calm))
}

// report records an event about the unavailable host, and reports whether there was a recent one.
func (h *host) report() (known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	known = now.Before(h.reported.Add(calm))
	h.reported = now
	return known
}

// retryAfter returns the wait that the server requests. It is 0 if there is none, or it cannot be parsed.
func retryAfter(header http.Header, now time.Time) time.Duration {
	s := strings.TrimSpace(header.Get("Retry-After"))
	seconds, err := strconv.ParseUint(s, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the maximum
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
