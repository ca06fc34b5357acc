package fetch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A host is unavailable if it is overloaded or unreachable: it answers 429 or 503, requests a wait, or rejects
// connections. All requests to it pause together. After the pause, they are sent at random times. The first one that
// fails starts the next pause, and those that were not sent yet wait again. So a host that is still unavailable gets
// few requests.

// An unavailable error is that of a host as a whole, not of a single request.
type unavailable struct {
	error
	host   *host
	failed int           // how often the host has failed in a row
	after  time.Duration // the wait that the host requested; 0 if it requested none
}

func (u *unavailable) Unwrap() error { return u.error }

// unavailable returns the error of a request as that of the host. Requests that were sent after the same pause have
// failed once, together.
func (h *host) unavailable(req *http.Request, err error, after time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &unavailable{err, h, min(h.pauses, attemptOf(req).pauses) + 1, after}
}

// pausing is the link that waits until the pause of a host is over, and records whether the host is available.
func (c *Client) pausing(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	h := c.host(req.URL)
	if err := c.wait(req, h); err != nil {
		return nil, err
	}
	resp, err := next.RoundTrip(req)
	switch {
	case err != nil && (isDial(err) || isSilent(err)) && temporary(err):
		if isSilent(err) && !h.answered.Load() && !c.insists {
			h.mu.Lock()
			h.silent, h.until = err, time.Now().Add(silence)
			h.mu.Unlock()
		}
		return nil, h.unavailable(req, err, 0)
	case err != nil:
		return nil, err
	}
	h.answered.Store(true)
	if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
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

// wait waits once for each pause of a host, but hardly longer than maxWait in all. It does not wait for a silent host.
func (c *Client) wait(req *http.Request, h *host) error {
	a, begun := attemptOf(req), time.Now()
	for waited := (time.Time{}); ; {
		h.mu.Lock()
		until, silent := h.until, h.silent
		if time.Since(until) > calm {
			h.pauses = 0
		}
		a.pauses = h.pauses
		h.mu.Unlock()
		pause := min(time.Until(until), maxWait-time.Since(begun))
		switch {
		case pause <= 0, until.Equal(waited):
			return nil
		case silent != nil && !h.answered.Load():
			return silent
		case c.opts.MaxPause > 0 && pause > c.opts.MaxPause:
			return &PausedError{Host: req.URL.Host, Until: until}
		}
		if err := c.opts.Sleep(req.Context(), pause+rand.N(spread)); err != nil {
			return err
		}
		waited = until
	}
}

// pause starts a pause of length d after a failure, unless one has started since the request was sent, and returns the
// time left. If the host requested a longer pause, it gets that.
func (h *host) pause(down *unavailable, d time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	begins := h.pauses < down.failed
	if begins {
		h.pauses++
	}
	until := time.Now().Add(max(d, down.after))
	if begins || down.after > 0 && until.After(h.until) {
		h.silent, h.until = nil, until
	}
	return max(0, time.Until(h.until))
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
