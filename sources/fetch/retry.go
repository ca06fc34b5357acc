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

// tries limit the tries of a request that fail in a row.
type tries struct {
	about  Request // for hints; empty for an archive or a Call
	most   int
	stalls int // if the last one has stalled; 0 means most
}

// retry calls try with an attempt until it succeeds, returns a permanent error, or has failed too often in a row
// without progress. If the host is unavailable, its failures count, also those of other requests. The errors have the
// type *Error.
func (c *Client) retry(ctx context.Context, u *url.URL, t tries, try func(*attempt) (progress bool, err error)) error {
	start, failed := time.Now(), 0
	for n := 1; ; n++ {
		begun, a := time.Now(), c.attempt(ctx, u)
		progress, err := try(a)
		a.stop()
		if err == nil {
			return nil
		}
		h := c.host(a.at)
		down, unavailable := errors.AsType[*unavailable](err)
		if failed++; unavailable {
			h, failed = down.host, down.failed
		}
		if progress {
			failed = 0
		}
		most := c.triesFor(h, err, t)
		again := ctx.Err() == nil && temporary(err) && failed < most && n < maxRounds*t.most
		longest := backoff(failed)
		wait := rand.N(longest) // full jitter, so that requests that failed together are not retried together
		if unavailable && (again || down.after > 0) {
			// A host that requests the same short wait of many processes has room for few of them, so the pause gets
			// longer with each try in any case. It is at least half of the backoff, because it counts as a failed try
			// of each request that waits.
			wait = h.pause(down, longest/2+wait/2)
		}
		if again {
			now := time.Now()
			known := now.UnixNano()-h.reported.Swap(now.UnixNano()) < int64(calm)
			atMost := allBackoffs(failed, most) + time.Duration(most-failed)*now.Sub(begun)
			if unavailable && down.after > 0 {
				atMost = wait + spread
			}
			c.emit(Event{URL: bare(u), Host: a.at.Host, Try: n, Wait: wait, Err: err, AtMost: atMost, Known: known})
			if unavailable { // the next request waits for the pause
				continue
			}
			if err = c.opts.Sleep(ctx, wait); err == nil {
				continue
			}
		}
		hint := ""
		if status, ok := errors.AsType[*StatusError](err); ok {
			hint = c.hint(u, a.at, t.about, status)
		} else if errors.Is(err, ErrStalled) {
			hint = c.opts.StallHint
		}
		if hint != "" {
			err = sources.WithHint(err, "%s", hint)
		}
		return &Error{URL: bare(u), Tries: n, Took: time.Since(start), Err: err, At: a.at}
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
func (c *Client) triesFor(h *host, err error, t tries) int {
	switch {
	case t.stalls > 0 && errors.Is(err, ErrStalled) && !errors.Is(err, errIdle):
		return min(t.most, t.stalls)
	case unreachable(err) == nil || h.answered.Load() || c.insists:
		return t.most
	case isSilent(err):
		return 1
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
