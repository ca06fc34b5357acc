package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/semaphore"
)

// A link of the chain that requests pass through does one thing, and leaves the rest to the next.
type link func(req *http.Request, next http.RoundTripper) (*http.Response, error)

// A chain is a link with the next one.
type chain struct {
	link link
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (c chain) RoundTrip(req *http.Request) (*http.Response, error) { return c.link(req, c.next) }

// An attempt is one try of a Document, a Download or a request of a library. It is in the context of its requests, in
// which the links find it. It ends if the server sends too little for too long, or too much. Only time spent waiting
// for the server counts, so a slow disk does not end it.
type attempt struct {
	ctx    context.Context // of the requests, which the attempt can cancel
	cancel context.CancelCauseFunc
	timer  *time.Timer // of the last wait
	try    *try        // of a Call, or nil
	at     *url.URL    // of the last request
	pauses int         // of its host in a row, when it was sent

	archive bool                // whether the requests have connections of their own
	limited bool                // whether each request needs a slot of its host
	slot    *semaphore.Weighted // that the attempt has, of a host or for a large document; or nil
	turn    *semaphore.Weighted // that the attempt has, for a large archive; or nil
	socket  *socket             // of the last request; nil if it isn't known

	limit     int64         // of the size of answers in bytes
	firstByte time.Duration // the longest wait for an answer, if that is more than the window
	window    time.Duration // the time to receive floor bytes
	floor     int
	idle      time.Duration // the longest wait without a byte, if that is less than the window
	budget    time.Duration // time left for all waits, however much is received

	left time.Duration // time left in the window
	got  int           // bytes received in the window

	began  time.Time     // of a measurement, see measure
	had    int64         // bytes of the archive at that time
	waited time.Duration // since then, in all
}

// attemptKey is the key of the *attempt in a context.
type attemptKey struct{}

// attempt returns an attempt for a URL. The caller must call stop.
func (c *Client) attempt(ctx context.Context, u *url.URL) *attempt {
	a := &attempt{at: u, limit: maxArchive, window: c.opts.Timeout, idle: math.MaxInt64, budget: math.MaxInt64}
	a.floor = max(1, int(minRate*a.window.Seconds()))
	ctx, a.cancel = context.WithCancelCause(ctx)
	a.ctx = context.WithValue(ctx, attemptKey{}, a)
	return a
}

// attemptOf returns the attempt that a request belongs to.
func attemptOf(req *http.Request) *attempt { return req.Context().Value(attemptKey{}).(*attempt) }

func (a *attempt) stop() {
	a.release()
	a.endTurn()
	a.cancel(nil)
}

func (a *attempt) endTurn() {
	if a.turn != nil {
		a.turn.Release(1)
		a.turn = nil
	}
}

// measure begins to measure the speed at which an archive arrives.
func (a *attempt) measure(have int64) {
	a.began, a.had, a.waited = time.Now(), have, 0
	if a.socket != nil {
		a.socket.reset()
	}
}

func (a *attempt) release() {
	if a.slot != nil {
		a.slot.Release(1)
		a.slot = nil
	}
}

// slowly makes the window at least as long as within, and the floor bufferSize. Servers that scan what they send or
// have received send very little until the scan is finished.
func (a *attempt) slowly(within time.Duration) {
	a.window, a.floor = max(a.window, within), bufferSize
	a.renew()
}

func (a *attempt) renew() { a.left, a.got = a.window, 0 }

// wait calls f, which waits for the server and returns the number of bytes received. If that takes longer than d, the
// attempt has stalled, and how says what did not arrive within a time.
func (a *attempt) wait(d time.Duration, how error, within time.Duration, f func() int) {
	a.timer = time.AfterFunc(max(1, min(d, a.budget)), func() {
		a.cancel(fmt.Errorf("%w within %s", how, round(within)))
	})
	start := time.Now()
	a.got += f()
	a.timer.Stop()
	took := time.Since(start)
	a.waited, a.left, a.budget = a.waited+took, a.left-took, a.budget-took
	if a.got >= a.floor {
		a.renew()
	}
}

// receiving is the link that limits the size of an answer, and the time until it begins and continues.
func (c *Client) receiving(req *http.Request, next http.RoundTripper) (resp *http.Response, err error) {
	a := attemptOf(req)
	within := max(a.window, a.firstByte)
	a.wait(within, errNoAnswer, within, func() int {
		resp, err = next.RoundTrip(req) //nolint:bodyclose // the caller does
		return 0
	})
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > a.limit && resp.StatusCode < 300 && req.Method != http.MethodHead {
		resp.Body.Close()
		return nil, fmt.Errorf("%w: %d bytes, of at most %d", ErrTooLarge, resp.ContentLength, a.limit)
	}
	a.renew()
	resp.Body = &body{resp.Body, a, a.limit}
	return resp, nil
}

// A body is that of an answer, under the limits of an attempt.
type body struct {
	io.ReadCloser
	of   *attempt
	left int64 // bytes until the limit
}

// Read implements [io.Reader]. Errors other than io.EOF are marked as broken connections.
func (b *body) Read(p []byte) (n int, err error) {
	a := b.of
	d, how, within := a.left, errTooLittle, a.window
	if a.idle <= d && a.idle < within {
		d, how, within = a.idle, errIdle, a.idle
	}
	a.wait(d, how, within, func() int {
		n, err = b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
		return n
	})
	switch b.left -= int64(n); {
	case b.left < 0:
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, a.limit)
	case err == nil, errors.Is(err, io.EOF) && a.ctx.Err() == nil:
		return n, err
	default:
		err = ended(a.ctx, broken{err})
	}
	a.try.end(err)
	return n, err
}

// An Exchange is a request that was sent, with the beginning of its answer. A redirect and the request that follows it
// are two.
type Exchange struct {
	Method string
	URL    string        // without user information and query
	Status int           // 0 if there was no answer
	Took   time.Duration // until the answer began, or the request failed
}

type traced struct{}

// Trace returns a context whose requests are reported, each when its answer begins or when it fails. Report may be
// called concurrently.
func Trace(ctx context.Context, report func(Exchange)) context.Context {
	return context.WithValue(ctx, traced{}, report)
}

// tracing is the link that reports the requests of traced contexts.
func (c *Client) tracing(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	report, ok := req.Context().Value(traced{}).(func(Exchange))
	if !ok {
		return next.RoundTrip(req)
	}
	start := time.Now()
	resp, err := next.RoundTrip(req)
	e := Exchange{Method: req.Method, URL: bare(req.URL), Took: time.Since(start)}
	if err == nil {
		e.Status = resp.StatusCode
	}
	report(e)
	return resp, err
}
