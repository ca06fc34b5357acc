package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tries counts the tries of a request. The pauses of an unavailable host count as failed ones, because the request
// would have failed in between. Those before the last good answer to any request don't count.
type tries struct {
	about  Request // for hints; empty for an archive or a Call
	most   int     // that may fail in a row
	stalls int     // that may fail in a row if the last one has stalled; 0 means most
	host   *host
	least  int  // the lowest number of pauses of the host since the request began
	missed int  // how many pauses there were since
	first  bool // whether the request is sent first after the pause
}

// retry calls try until it succeeds, returns a permanent error, or has failed too often in a row without progress. Its
// errors have the type *Error.
func (c *Client) retry(ctx context.Context, u *url.URL, t *tries, try func() (progress bool, err error)) error {
	start, failed := time.Now(), 0
	for n := 1; ; n++ {
		progress, err := try()
		if err == nil {
			return nil
		}
		down, unavailable := errors.AsType[*unavailable](err)
		switch {
		case progress:
			failed = 0
		case unavailable:
			failed = t.missed + 1
		default:
			failed++
		}
		most := c.triesFor(err, t)
		again := ctx.Err() == nil && temporary(err) && failed < most && n < maxRounds*t.most
		at := u
		if r, ok := errors.AsType[*redirected](err); ok {
			at = r.at
		}
		longest, h, atMost := backoff(failed), c.host(at), allBackoffs(failed, most)
		wait := rand.N(longest) // full jitter, so that requests that failed together are not retried together
		if unavailable {
			h = down.host
		}
		if unavailable && (again || down.after > 0) {
			// A host that requests the same short wait of many processes has room for few of them, so the pause gets
			// longer with each try in any case. It is at least half of the backoff, because it counts as a failed try
			// of each request that waits.
			wait = h.pause(t, max(down.after, longest/2+wait/2), down.after > 0)
			if down.after > 0 {
				atMost = wait + spread
			}
		}
		if again {
			now := time.Now().UnixNano()
			known := now-h.reported.Swap(now) < int64(calm)
			c.emit(Event{URL: bare(u), Host: at.Host, Try: n, Wait: wait, Err: err, AtMost: atMost, Known: known})
			if unavailable { // the next request waits for the pause
				continue
			}
			if err = c.opts.Sleep(ctx, wait); err == nil {
				continue
			}
		}
		if unavailable && unreachable(err) != nil && failed >= most && t.most > 1 {
			h.lost.Store(true)
		}
		return &Error{URL: bare(u), Tries: n, Took: time.Since(start), Err: c.suggest(u, t.about, err)}
	}
}

// emit reports an event.
func (c *Client) emit(e Event) {
	if c.opts.Report == nil {
		return
	}
	c.report.Lock()
	defer c.report.Unlock()
	c.opts.Report(e)
}

// backoff returns the longest wait after so many failed tries.
func backoff(failed int) time.Duration {
	return min(maxBackoff, firstBackoff<<min(max(failed-1, 0), 5)) // by then it is the maximum
}

// allBackoffs returns the maximum sum of the waits before the remaining tries.
func allBackoffs(failed, tries int) (sum time.Duration) {
	for ; failed < tries; failed++ {
		sum += backoff(failed)
	}
	return sum
}

// triesFor returns the maximum number of tries after one that ended in err.
func (c *Client) triesFor(err error, t *tries) int {
	down, _ := errors.AsType[*unavailable](err)
	switch {
	case t.stalls > 0 && errors.Is(err, ErrStalled) && !errors.Is(err, errIdle):
		return min(t.most, t.stalls)
	case unreachable(err) == nil:
		return t.most
	case down != nil && down.host.lost.Load():
		return 1
	case c.answered.Load():
		return t.most
	}
	return min(t.most, reachTries)
}

// temporaryCodes are errors of object stores, which may have other statuses than 5xx. A wrong checksum may be due to a
// bad connection.
var temporaryCodes = []string{
	"SlowDown", "RequestTimeout", "OperationAborted", "InternalError",
	"BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody",
}

// Temporary reports whether the same request may succeed later.
func (e *StatusError) Temporary() bool {
	known := func(code string) bool { return slices.Contains(temporaryCodes, code) }
	temporary := e.Code >= 500 || slices.ContainsFunc(e.Codes, known)
	switch e.Code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		temporary = true
	case http.StatusNotImplemented:
		temporary = false
	case http.StatusInsufficientStorage:
		temporary = len(e.Codes) == 0 // with a code, an object store is full
	}
	return temporary && e.after <= maxWait
}

// temporary reports whether trying again may help.
func temporary(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return has[broken](err) || ok && status.Temporary()
}

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
func (c *Client) pausing(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	h := c.host(req.URL)
	if err := c.wait(req.Context(), req.URL, h, attemptOf(req).tries); err != nil {
		return nil, err
	}
	resp, err := next.RoundTrip(req)
	switch {
	case err != nil && isDial(err) && temporary(err):
		return nil, &unavailable{error: err, host: h}
	case err != nil:
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
