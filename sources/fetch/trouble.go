package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"
)

// A host in trouble is overloaded or unreachable: it answers 429 or 503,
// requests a wait, or rejects connections. All requests to it pause together,
// including those of other processes. Until there was no trouble for a while,
// the number of concurrent requests to it is limited across all processes.

// troubled is an error that concerns a host, not a single request.
type troubled struct {
	error
	host *host
}

func (t *troubled) Unwrap() error { return t.error }

// troubles reports whether the answer means that the host is in trouble.
func (e *StatusError) troubles() bool {
	return e.temporary() && (e.Code == http.StatusTooManyRequests || e.Code == http.StatusServiceUnavailable || e.after > 0)
}

// unreached marks err as troubled if there was no connection to the host.
func unreached(h *host, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && temporary(err) {
		return &troubled{err, h}
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
			s.until = later(s.until, earlier(until, now.Add(maxWait)))
		}
	}
	s.over = !s.until.After(later(now, waited))
	return s
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
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
// time left. If the host requested d, the pause is at least that long, plus a
// random duration, because the host may have requested the same wait of other
// machines.
func (c *Client) leave(h *host, d time.Duration, asked bool) time.Duration {
	now := time.Now()
	s := c.standing(h)
	if !s.over && (!asked || !now.Add(d).After(s.until)) {
		return s.until.Sub(now)
	}
	if asked {
		d += rand.N(spread)
	}
	if s.over {
		s.pauses++
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

// keepPause waits until a request may be sent to the host of u. Requests
// without a seat are sent at random times, and not all at once. If another
// process started the pause, an event reports it.
func (c *Client) keepPause(ctx context.Context, u *url.URL, s *seat) error {
	h := c.host(u)
	now := c.standing(h)
	if now.over {
		return nil
	}
	pause := time.Until(now.until)
	if s == nil || s.host != h {
		pause += rand.N(spread)
	}
	if !h.tell() {
		c.tell(Event{URL: bare(u), Host: u.Host, AtMost: pause})
	}
	if err := c.opts.Sleep(ctx, pause); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waited = later(h.waited, now.until)
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

// A seat is permission to send a request to a host in trouble. A request keeps
// its seat from one try to the next, so that the request that failed is the
// first after the pause.
type seat struct {
	client  *Client
	tries   int // maximum number of tries of the request
	failed  int // failed tries in a row
	missed  int // pauses that ended while it waited for a seat
	host    *host
	release func() // nil if it has no seat

	late bool // the wait took too long, so it continues without a seat
	last bool // another try is pointless: the host has rejected all requests during the wait
}

func (c *Client) newSeat(tries int) *seat { return &seat{client: c, tries: tries} }

// take waits for a seat at the host of u if the host requires one, and reports
// whether it has one. It releases a seat at another host. The wait is limited.
func (s *seat) take(ctx context.Context, u *url.URL) (seated bool, err error) {
	if s == nil {
		return false, nil
	}
	h := s.client.host(u)
	if s.host == h {
		return true, nil
	}
	s.leave()
	if s.late || s.last || !s.client.standing(h).recent() {
		return false, nil
	}
	if h.sit() {
		if s.sitDown(h) {
			return true, nil
		}
		<-h.seats
	}
	s.client.tell(Event{URL: bare(u), Host: u.Host, AtMost: maxSeat, Known: h.tell()})
	return s.wait(ctx, h)
}

// wait waits for a seat. It ends without a seat if the host no longer requires
// one, if the host has rejected all requests for as many tries as this request
// has, or after a time limit.
func (s *seat) wait(ctx context.Context, h *host) (seated bool, err error) {
	look, late := time.NewTicker(seatPoll), time.NewTimer(maxSeat)
	defer look.Stop()
	defer late.Stop()
	next := false // whether the request is next in line in this process
	defer func() {
		if next && !seated {
			<-h.seats
		}
	}()
	least := s.client.standing(h).pauses
	for {
		free := h.seats
		if next {
			free = nil
		}
		select {
		case free <- struct{}{}:
			next = true
		case <-look.C:
		case <-late.C:
			s.late = true
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
		now := s.client.standing(h)
		least = min(least, now.pauses)
		s.missed = now.pauses - least
		s.last = s.missed >= max(1, s.tries-1-max(1, s.failed))
		if s.last || !now.recent() {
			return false, nil
		}
		if next && s.sitDown(h) {
			return true, nil
		}
	}
}

// sit makes a request the next in line for a seat, and returns false if others
// are.
func (h *host) sit() bool {
	select {
	case h.seats <- struct{}{}:
		return true
	default:
		return false
	}
}

// sitDown takes one of the seats that all processes share, and returns false if
// none is free.
func (s *seat) sitDown(h *host) bool {
	release := func() {}
	if ledger := s.client.ledger.Load(); ledger != nil {
		var ok bool
		if release, ok = (*ledger).Seat(h.key, seats); !ok {
			return false
		}
	}
	s.host = h
	s.release = func() {
		release()
		<-h.seats
	}
	return true
}

// fails returns the number of failed tries in a row after a try that failed due
// to trouble with the host. Pauses that the request waited for count as failed
// tries, because it would have failed in between. Pauses before the last good
// answer to any request do not count.
func (s *seat) fails(failed int, h *host) int {
	now := s.client.standing(h)
	pauses := now.pauses
	if now.over {
		pauses++ // the next one
	}
	s.failed = min(failed+s.missed, max(1, pauses))
	s.missed = 0
	return s.failed
}

// leave releases the seat.
func (s *seat) leave() {
	if s == nil || s.host == nil {
		return
	}
	s.release()
	s.host, s.release = nil, nil
}
