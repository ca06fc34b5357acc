package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/larder-cli/larder/sources"
)

// retry calls try until it succeeds, fails for good, or has failed tries times
// in a row without having brought anything.
func (c *Client) retry(ctx context.Context, u *url.URL, tries int, try func() (progress bool, err error)) error {
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
		if ctx.Err() == nil && temporary(err) && failed < c.triesFor(err, tries) && n < maxRounds*tries {
			err = c.pause(ctx, u, n, failed, err)
			if err == nil {
				continue
			}
		}
		c.giveUp(err)
		return &Error{URL: bare(u), Tries: n, Took: time.Since(start), Err: c.suggestTimeout(err)}
	}
}

// suggestTimeout adds how to wait longer, if that is what failed.
func (c *Client) suggestTimeout(err error) error {
	if c.opts.TimeoutSetting == "" || !errors.Is(err, ErrStalled) {
		return err
	}
	return sources.WithHint(err, "if the server needs longer, set %s to a larger number of seconds", c.opts.TimeoutSetting)
}

// pause waits before the next try. If the host asked for a wait, it is kept
// where the next request is sent, with those of everybody else.
func (c *Client) pause(ctx context.Context, u *url.URL, n, failed int, err error) error {
	wait := backoff(failed)
	var status *StatusError
	asked := errors.As(err, &status) && status.after > 0
	if asked {
		wait = status.after
	}
	if c.news(err) && (!asked || !status.known) { // or forty requests tell of one wait forty times
		c.tell(Event{URL: bare(u), Host: failedHost(u, err), Try: n, Wait: wait, Err: err})
	}
	if asked {
		return nil
	}
	return c.opts.Sleep(ctx, wait)
}

func (c *Client) tell(e Event) {
	if c.opts.Report == nil {
		return
	}
	c.report.Lock()
	defer c.report.Unlock()
	c.opts.Report(e)
}

// backoff is exponential with full jitter: any time up to the limit, so that
// those who failed together do not come back together.
func backoff(failed int) time.Duration {
	return rand.N(min(maxBackoff, firstBackoff<<min(max(failed-1, 0), maxDoublings)))
}

func failedHost(u *url.URL, err error) string {
	var r *redirected
	if errors.As(err, &r) {
		return r.host
	}
	return u.Host
}
