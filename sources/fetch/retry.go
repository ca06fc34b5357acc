package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/larder-cli/larder/sources"
)

// retry calls try until it succeeds, returns a permanent error, or has failed
// tries times in a row without progress. While the host is in trouble, the
// request keeps its seat between tries.
func (c *Client) retry(ctx context.Context, u *url.URL, s *seat, tries int, try func() (progress bool, err error)) error {
	defer s.leave()
	start := time.Now()
	failed := 0
	for n := 1; ; n++ {
		progress, err := try()
		if err == nil {
			return nil
		}
		failed++
		if progress {
			failed = 0
		}
		if trouble, ok := errors.AsType[*troubled](err); ok && s != nil && failed > 0 {
			failed = s.fails(failed, trouble.host)
		}
		again := temporary(err) && failed < c.triesFor(err, tries) && n < maxRounds*tries && (s == nil || !s.last)
		if again && ctx.Err() == nil {
			err = c.pause(ctx, u, s, failure{n, failed, tries, err})
			if err == nil {
				continue
			}
		}
		c.giveUp(err)
		return &Error{URL: bare(u), Tries: n, Took: time.Since(start), Err: c.suggestTimeout(err)}
	}
}

// suggestTimeout adds the hint how to wait longer, if err is a timeout.
func (c *Client) suggestTimeout(err error) error {
	if c.opts.TimeoutSetting == "" || !errors.Is(err, ErrStalled) {
		return err
	}
	return sources.WithHint(err, "if the server needs longer, set %s to a larger number of seconds", c.opts.TimeoutSetting)
}

// A failure is a failed try that will be followed by another one.
type failure struct {
	try    int // counted from 1
	inARow int
	tries  int // how many may fail in a row
	err    error
}

// pause waits before the next try. If the host is in trouble, pause only starts
// a pause for all requests to it. The requests wait for its end before they are
// sent.
func (c *Client) pause(ctx context.Context, u *url.URL, s *seat, f failure) error {
	e := Event{URL: bare(u), Host: failedHost(u, f.err), Try: f.try, Wait: backoff(f.inARow), Err: f.err}
	trouble, ok := errors.AsType[*troubled](f.err)
	if !ok {
		s.leave()
		c.tell(e)
		return c.opts.Sleep(ctx, e.Wait)
	}
	var status *StatusError
	if errors.As(f.err, &status) && status.after > 0 {
		e.Wait = status.after
		e.AtMost = status.after + spread
	} else {
		e.Wait = c.leave(trouble.host, sharedBackoff(f.inARow), false)
		e.AtMost = allBackoffs(f.inARow, c.triesFor(f.err, f.tries))
	}
	e.Known = trouble.host.tell()
	c.tell(e)
	return nil
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
