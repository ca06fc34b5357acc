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

// Trouble is a host that is overloaded or out of reach: it answers 429 or 503, asks for a wait
// or refuses connections. All requests to it pause together, and so do those of other processes.
// Until it has been well for a while, it gets few requests at a time, from all processes together.

// troubled is an error that is about a host rather than about what it was asked for.
type troubled struct {
	error
	host *host
}

func (t *troubled) Unwrap() error { return t.error }

// troubles reports whether an answer is about the host.
func (e *StatusError) troubles() bool {
	return e.temporary() && (e.Code == http.StatusTooManyRequests || e.Code == http.StatusServiceUnavailable || e.after > 0)
}

// unreached makes err troubled if there was no connection to the host.
func unreached(h *host, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && temporary(err) {
		return &troubled{err, h}
	}
	return err
}

// A standing is how a host is doing.
type standing struct {
	until  time.Time // before which no request is to be sent; zero if there was no trouble
	pauses int       // since the last good answer
	over   bool      // whether the time has come
}

// recent reports whether the host was in trouble a short time ago.
func (s standing) recent() bool { return time.Now().Before(s.until.Add(calm)) }

// standing is what this process and others know of a host.
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

// leave begins a pause of length d, unless there is one, and returns how long the pause still
// is. If the host asked for d, the pause is at least as long, and a little longer: other machines
// may have been asked the same.
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

// well notes a good answer of the host.
func (c *Client) well(h *host) {
	if s := c.standing(h); s.pauses > 0 {
		s.pauses = 0
		c.note(h, s)
	}
}

// keepPause waits until a request may be sent to the host of u. Requests without a seat are
// spread over time, so that they are not all sent at once. If the host has refused another
// process, an event tells of it.
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

// tell reports whether an event has told of the trouble with the host, and counts the next one.
func (h *host) tell() (known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	known = now.Before(h.told.Add(calm))
	h.told = now
	return known
}

// A seat is what a request needs while its host is in trouble, besides what it needs otherwise.
// It is kept from one try to the next, so that the request that failed is the first after the
// pause.
type seat struct {
	client  *Client
	tries   int // of the request
	failed  int // of them, in a row
	missed  int // pauses that passed while it waited for a seat
	host    *host
	release func() // nil without a seat

	late bool // has waited for too long, and waits no more
	last bool // no further try makes sense: the host has refused all requests during the wait
}

func (c *Client) newSeat(tries int) *seat { return &seat{client: c, tries: tries} }

// take waits for a seat at the host of u if the host needs that, and reports whether there is
// one. A seat at another host is left. The wait is bounded.
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

// wait waits for a seat until there is one, the host needs none any more or has refused all
// requests for as many tries as this one has, or it took too long.
func (s *seat) wait(ctx context.Context, h *host) (seated bool, err error) {
	look, late := time.NewTicker(seatPoll), time.NewTimer(maxSeat)
	defer look.Stop()
	defer late.Stop()
	next := false // to get a seat, of this process's requests
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

// sit makes a request the next to get a seat, if that is possible at once.
func (h *host) sit() bool {
	select {
	case h.seats <- struct{}{}:
		return true
	default:
		return false
	}
}

// sitDown takes a seat from those that all processes share, if there is one.
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

// fails is how many tries count as failed in a row, if those of the request did and the last one
// was due to trouble with a host. The pauses that it waited for count too, as it would have
// failed in between, but none before the last good answer to any request.
func (s *seat) fails(failed int, h *host) int {
	now := s.client.standing(h)
	pauses := now.pauses
	if now.over {
		pauses++ // the next
	}
	s.failed = min(failed+s.missed, max(1, pauses))
	s.missed = 0
	return s.failed
}

// leave gives the seat to another request.
func (s *seat) leave() {
	if s == nil || s.host == nil {
		return
	}
	s.release()
	s.host, s.release = nil, nil
}
