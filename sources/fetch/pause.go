package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"
)

// A host in trouble is overloaded or unreachable: it answers 429 or 503, requests a wait, or rejects
// connections. All requests to it pause together. When the pause is over, the request that caused it is sent
// first, and the others at random times. The first one that is refused starts the next pause, and those that
// were not sent yet wait again. So a host that is still in trouble gets few requests.

// troubled is an error of a host as a whole, not of a single request.
type troubled struct {
	error
	host  *host
	after time.Duration // the wait that the host requested; 0 if it requested none
}

func (t *troubled) Unwrap() error { return t.error }

// troubles reports whether the answer means that the host is in trouble.
func (e *StatusError) troubles() bool {
	return e.Temporary() && (e.Code == http.StatusTooManyRequests || e.Code == http.StatusServiceUnavailable || e.after > 0)
}

// unreached marks err as troubled if there was no connection to the host.
func unreached(h *host, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && temporary(err) {
		return &troubled{error: err, host: h}
	}
	return err
}

// recent reports whether the host was in trouble a short time ago.
func (h *host) recent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until.Add(calm))
}

// paused reports whether there is a pause. The caller holds h.mu.
func (h *host) paused() bool { return !h.waited && h.until.After(time.Now()) }

// pause starts a pause of length d, unless one has started, and returns the time
// left. If the host requested d, the pause is at least that long.
func (h *host) pause(e *effort, d time.Duration, asked bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, paused := time.Now(), h.paused()
	if paused && (!asked || !now.Add(d).After(h.until)) {
		return h.until.Sub(now)
	}
	if !paused {
		h.pauses++
		e.first = !asked // it may have requested the same wait of other machines
	}
	h.until, h.waited = now.Add(d), false
	return d
}

// well records a good answer of the host.
func (h *host) well() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pauses = 0
}

// A PausedError is a request that was not sent, because its host was in trouble before.
type PausedError struct {
	Host  string
	Until time.Time // when requests are sent again
}

func (e *PausedError) Error() string {
	return fmt.Sprintf("%s was overloaded or could not be reached, so the next request is sent at %s", e.Host, e.Until.UTC().Format("15:04:05 UTC"))
}

// keepPause waits until a request may be sent to the host of u, but not much
// longer than maxWait.
func (c *Client) keepPause(ctx context.Context, u *url.URL, e *effort) error {
	h := c.host(u)
	begun := time.Now()
	for until, waits := e.waits(h); waits && time.Since(begun) < maxWait; until, waits = e.waits(h) {
		pause := time.Until(until)
		if !e.first {
			pause += rand.N(spread)
		}
		e.first = false
		if c.opts.MaxPause > 0 && pause > c.opts.MaxPause {
			return &PausedError{Host: u.Host, Until: until}
		}
		if !h.tell() {
			c.tell(Event{URL: bare(u), Host: u.Host, AtMost: pause})
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

// tell reports whether a recent event has already reported the trouble with the
// host, and records the current one.
func (h *host) tell() (known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	known = now.Before(h.told.Add(calm))
	h.told = now
	return known
}

// An effort is how hard a request is tried. The pauses of a host in trouble count
// as failed tries, because the request would have failed in between. Those before
// the last good answer to any request don't count.
type effort struct {
	tries  int // how many may fail in a row
	host   *host
	least  int  // the lowest number of pauses of the host since the request began
	missed int  // how many pauses there were since
	first  bool // whether it is sent first after the pause
}

// waits returns the end of the pause, and whether the request has to wait for it. For its
// last try it does not.
func (e *effort) waits(h *host) (until time.Time, waits bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.host != h {
		e.host, e.least = h, h.pauses
	}
	e.least = min(e.least, h.pauses)
	e.missed = h.pauses - e.least
	return h.until, h.paused() && e.missed < max(1, e.tries-1)
}
