package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/larder-cli/larder/sources"
)

// retry calls try until it succeeds, returns a permanent error, or has failed as
// often in a row without progress as the effort permits.
func (c *Client) retry(ctx context.Context, u *url.URL, e *effort, try func() (progress bool, err error)) error {
	start := time.Now()
	failed := 0
	for n := 1; ; n++ {
		progress, err := try()
		if err == nil {
			return nil
		}
		trouble, troubled := errors.AsType[*troubled](err)
		switch {
		case progress:
			failed = 0
		case troubled:
			failed = e.missed + 1
		default:
			failed++
		}
		again := ctx.Err() == nil && temporary(err) && failed < c.triesFor(err, e.tries) && n < maxRounds*e.tries
		event := Event{URL: bare(u), Host: failedHost(u, err), Try: n, Wait: backoff(failed), Err: err}
		if troubled && (again || trouble.after > 0) {
			c.startPause(&event, e, trouble, failed)
		} else if again {
			event.AtMost = allBackoffs(failed, c.triesFor(err, e.tries))
		}
		if again {
			at := c.host(u)
			if troubled {
				at = trouble.host
			}
			event.Known = at.tell()
			c.tell(event)
			if troubled { // keepPause waits
				continue
			}
			if err = c.opts.Sleep(ctx, event.Wait); err == nil {
				continue
			}
		}
		c.giveUp(err, e.tries > 1 && failed >= e.tries)
		return &Error{URL: bare(u), Tries: n, Took: time.Since(start), Err: c.suggestTimeout(err)}
	}
}

// startPause starts a pause for all requests to a host, and completes the event about it. A
// host that requests the same short wait of many processes has room for few of them, so the
// pause gets longer with each try in any case.
func (c *Client) startPause(event *Event, e *effort, t *troubled, failed int) {
	event.Wait = t.host.pause(e, max(t.after, sharedBackoff(failed)), t.after > 0)
	if event.AtMost = event.Wait + spread; t.after == 0 {
		event.AtMost = allBackoffs(failed, c.triesFor(t, e.tries))
	}
}

// suggestTimeout adds the hint how to wait longer, if err is a timeout.
func (c *Client) suggestTimeout(err error) error {
	if c.opts.TimeoutSetting == "" || !errors.Is(err, ErrStalled) {
		return err
	}
	return sources.WithHint(err, "if the server needs longer, set %s to a larger number of seconds", c.opts.TimeoutSetting)
}

func (c *Client) tell(e Event) {
	if c.opts.Report == nil {
		return
	}
	c.report.Lock()
	defer c.report.Unlock()
	c.opts.Report(e)
}

// backoff returns a random wait up to an exponential limit (full jitter), so
// that requests that failed together are not retried together.
func backoff(failed int) time.Duration { return rand.N(longestBackoff(failed)) }

// sharedBackoff returns the backoff for all requests to a host together. It is
// at least half of the limit, because it counts as a failed try for each of
// them.
func sharedBackoff(failed int) time.Duration {
	longest := longestBackoff(failed)
	return longest/2 + rand.N(longest/2)
}

func longestBackoff(failed int) time.Duration {
	return min(maxBackoff, firstBackoff<<min(max(failed-1, 0), maxDoublings))
}

// allBackoffs returns the maximum sum of the waits before the remaining tries.
func allBackoffs(failed, tries int) (sum time.Duration) {
	for ; failed < tries; failed++ {
		sum += longestBackoff(failed)
	}
	return sum
}

func failedHost(u *url.URL, err error) string {
	var r *redirected
	if errors.As(err, &r) {
		return r.host
	}
	return u.Host
}

// triesFor returns the maximum number of tries after one that ended in err.
func (c *Client) triesFor(err error, tries int) int {
	if unreachable(err) == nil {
		return tries
	}
	if t, ok := errors.AsType[*troubled](err); ok && t.host.lost.Load() {
		return 1
	}
	if c.answered.Load() || c.opts.Patient {
		return tries
	}
	if c.hopeless.Load() {
		return 1
	}
	return min(tries, reachTries)
}

// giveUp records the final error of a request. If all its tries could not reach the host, other requests to the host are not
// retried until the host answers. If no host has answered yet, other unreachable hosts are not retried either.
func (c *Client) giveUp(err error, all bool) {
	if unreachable(err) == nil {
		return
	}
	if t, ok := errors.AsType[*troubled](err); ok && all {
		t.host.lost.Store(true)
	}
	if !c.answered.Load() {
		c.hopeless.Store(true)
	}
}

// temporaryCodes are errors of object stores, which may have other statuses than 5xx. A wrong checksum may be due to a bad
// connection.
var temporaryCodes = []string{
	"SlowDown", "RequestTimeout", "OperationAborted", "InternalError", "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody",
}

// Temporary reports whether the same request may succeed later.
func (e *StatusError) Temporary() bool {
	switch e.Code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return e.after <= maxWait
	case http.StatusNotImplemented:
		return false
	case http.StatusInsufficientStorage:
		return len(e.Codes) == 0 && e.after <= maxWait // with a code, an object store is full
	}
	known := slices.ContainsFunc(e.Codes, func(code string) bool { return slices.Contains(temporaryCodes, code) })
	return (known || e.Code >= 500) && e.after <= maxWait
}

// temporary reports whether trying again may help.
func temporary(err error) bool {
	if proxy, ok := errors.AsType[*ProxyError](err); ok && proxy.Err == nil {
		return (&StatusError{Code: proxy.Code}).Temporary()
	}
	var status *StatusError
	if errors.As(err, &status) {
		return status.Temporary()
	}
	if _, refused := errors.AsType[*addressError](err); refused {
		return false
	}
	var b broken
	return errors.As(err, &b)
}
