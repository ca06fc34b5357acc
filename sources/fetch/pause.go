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

// A host in trouble is overloaded or unreachable: it answers 429 or 503,
// requests a wait, or rejects connections. All requests to it pause together,
// including those of other processes. When the pause is over, the request that
// caused it is sent first, and the others at random times. The first one that is
// refused starts the next pause, and those that were not sent yet wait again. So a
// host that is still in trouble gets few requests, although nothing counts them
// across processes. So that one refused request does not stop all of many processes,
// some of them send one request after each pause without looking again.

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

// A standing is the state of a host.
type standing struct {
	until  time.Time // the end of the pause; zero if there was no trouble
	pauses int       // number of pauses since the last good answer
	over   bool      // whether the pause is over
}

// recent reports whether the host was in trouble a short time ago.
func (s standing) recent() bool { return time.Now().Before(s.until.Add(calm)) }

// standing returns the state of a host, from this process and from others.
func (c *Client) standing(h *host) standing {
	h.mu.Lock()
	s, waited := h.standing, h.waited
	h.mu.Unlock()
	now := time.Now()
	if ledger := c.ledger.Load(); ledger != nil {
		if until, pauses := (*ledger).Until(h.key); !until.IsZero() {
			s.pauses = pauses
			s.until = later(s.until, now.Add(min(until.Sub(now), maxWait)))
		}
	}
	s.over = !s.until.After(later(now, waited))
	return s
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c *Client) note(h *host, s standing) {
	h.mu.Lock()
	h.standing = s
	h.mu.Unlock()
	if ledger := c.ledger.Load(); ledger != nil {
		(*ledger).Leave(h.key, s.until, s.pauses)
	}
}

// leave starts a pause of length d, unless one has started, and returns the
// time left. If the host requested d, the pause is at least that long.
func (c *Client) leave(h *host, e *effort, d time.Duration, asked bool) time.Duration {
	now := time.Now()
	s := c.standing(h)
	if !s.over && (!asked || !now.Add(d).After(s.until)) {
		return s.until.Sub(now)
	}
	if s.over {
		s.pauses++
		e.first = !asked // it may have requested the same wait of other machines
	}
	s.until = now.Add(d)
	c.note(h, s)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waited = time.Time{}
	return d
}

// well records a good answer of the host.
func (c *Client) well(h *host) {
	if s := c.standing(h); s.pauses > 0 {
		s.pauses = 0
		c.note(h, s)
	}
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
// longer than maxWait. If another process started the pause, an event reports it.
func (c *Client) keepPause(ctx context.Context, u *url.URL, e *effort) error {
	h := c.host(u)
	begun := time.Now()
	for now := c.standing(h); e.waits(h, now) && time.Since(begun) < maxWait; now = c.standing(h) {
		pause := time.Until(now.until)
		if !e.first {
			pause += rand.N(spread)
		}
		e.first = false
		if c.opts.MaxPause > 0 && pause > c.opts.MaxPause {
			return &PausedError{Host: u.Host, Until: now.until}
		}
		if !h.tell() {
			c.tell(Event{URL: bare(u), Host: u.Host, AtMost: pause})
		}
		if err := c.opts.Sleep(ctx, pause); err != nil {
			return err
		}
		h.mu.Lock()
		foremost := h.waited.Before(now.until) // in this process
		h.waited = later(h.waited, now.until)
		h.mu.Unlock()
		if foremost && rand.N(processesPerProbe) == 0 {
			break // even if another process has started the next pause
		}
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

// waits reports whether the request has to wait for the end of a pause. For its
// last try it does not.
func (e *effort) waits(h *host, now standing) bool {
	if e.host != h {
		e.host, e.least = h, now.pauses
	}
	e.least = min(e.least, now.pauses)
	e.missed = now.pauses - e.least
	return !now.over && e.missed < max(1, e.tries-1)
}
