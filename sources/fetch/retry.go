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

// tries counts the tries of a request. The pauses of an unavailable host count as failed ones, because the request
// would have failed in between. Those before the last good answer to any request don't count.
type tries struct {
	most   int // that may fail in a row
	host   *host
	least  int  // the lowest number of pauses of the host since the request began
	missed int  // how many pauses there were since
	first  bool // whether the request is sent first after the pause
}

// retry calls try until it succeeds, returns a permanent error, or has failed too often in a row without progress. Its
// errors have the type *Error.
func (c *Client) retry(ctx context.Context, u *url.URL, t *tries, try func() (progress bool, err error)) error {
	start := time.Now()
	failed := 0
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
		most := c.triesFor(err, t.most)
		again := ctx.Err() == nil && temporary(err) && failed < most && n < maxRounds*t.most
		event := Event{URL: bare(u), Host: failedHost(u, err), Try: n, Wait: backoff(failed), Err: err}
		if again {
			event.AtMost = allBackoffs(failed, most)
		}
		if unavailable && (again || down.after > 0) {
			// A host that requests the same short wait of many processes has room for few of them, so the pause gets
			// longer with each try in any case.
			event.Wait = down.host.pause(t, max(down.after, sharedBackoff(failed)), down.after > 0)
			if down.after > 0 {
				event.AtMost = event.Wait + spread
			}
		}
		if again {
			at := c.host(u)
			if unavailable {
				at = down.host
			}
			event.Known = at.report()
			c.emit(event)
			if unavailable { // the next request waits for the pause
				continue
			}
			if err = c.opts.Sleep(ctx, event.Wait); err == nil {
				continue
			}
		}
		if unavailable && unreachable(err) != nil && failed >= most && t.most > 1 {
			down.host.lost.Store(true)
		}
		if c.opts.TimeoutSetting != "" && errors.Is(err, ErrStalled) {
			err = sources.WithHint(err, "if the server needs longer, set %s to a larger number of seconds",
				c.opts.TimeoutSetting)
		}
		return &Error{URL: bare(u), Tries: n, Took: time.Since(start), Err: err}
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

// backoff returns a random wait up to an exponential limit (full jitter), so that requests that failed together are not
// retried together.
func backoff(failed int) time.Duration { return rand.N(longestBackoff(failed)) }

// sharedBackoff returns the backoff for all requests to a host together. It is at least half of the limit, because it
// counts as a failed try for each of them.
func sharedBackoff(failed int) time.Duration { return longestBackoff(failed)/2 + backoff(failed)/2 }

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
	if r, ok := errors.AsType[*redirected](err); ok {
		return r.host
	}
	return u.Host
}

// triesFor returns the maximum number of tries after one that ended in err.
func (c *Client) triesFor(err error, most int) int {
	down, _ := errors.AsType[*unavailable](err)
	switch {
	case unreachable(err) == nil:
		return most
	case down != nil && down.host.lost.Load():
		return 1
	case c.answered.Load() || c.opts.Patient:
		return most
	}
	return min(most, reachTries)
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
	if proxy, ok := errors.AsType[*ProxyError](err); ok && proxy.Err == nil {
		return (&StatusError{Code: proxy.Code}).Temporary()
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Temporary()
	}
	return has[broken](err) && !has[*addressError](err)
}
