package fetch

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// A watch ends an attempt that receives too little for too long. Only time spent waiting for the server counts, so a
// slow disk does not end an attempt.
type watch struct {
	ctx    context.Context // that of the attempt, which the watch can cancel
	cancel context.CancelCauseFunc
	timer  *time.Timer

	window time.Duration // the time to receive floor bytes
	floor  int
	left   time.Duration // time left in the window
	got    int           // bytes received in the window
	waited time.Duration // total time waited
	budget time.Duration // time left for all waits, however much is received

	idle      time.Duration // the longest wait without a byte; 0 means the window
	firstByte time.Duration // the longest wait for an answer after the request was sent; 0 means the window
	answered  atomic.Bool   // whether the answer has begun

	mu      sync.Mutex
	waiting time.Duration // what the timer is set to; 0 if it is stopped
}

// newWatch returns a watch, and the context that it cancels. The caller must call stop.
func newWatch(ctx context.Context, window time.Duration) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{ctx: ctx, cancel: cancel, budget: math.MaxInt64, window: window}
	w.floor = max(1, int(minRate*window.Seconds()))
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	return ctx, w
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// timing is the link that ends a request if the answer takes too long to begin or to continue.
func (c *Client) timing(next http.RoundTripper) http.RoundTripper {
	return link(func(req *http.Request) (resp *http.Response, err error) {
		w := attemptOf(req).watch
		trace := &httptrace.ClientTrace{
			// While a server fetches an archive from elsewhere, it sends nothing, like a dead server.
			WroteRequest:         func(httptrace.WroteRequestInfo) { w.await(w.firstByte) },
			GotFirstResponseByte: func() { w.await(w.window) },
		}
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
		w.answered.Store(false)
		w.renew()
		w.while(func() int {
			resp, err = next.RoundTrip(req) //nolint:bodyclose // the caller does
			return 0
		})
		if err != nil {
			return nil, err
		}
		if w.ctx.Err() != nil { // an answer received after cancellation does not count
			_ = resp.Body.Close()
			return nil, ended(w.ctx, w.ctx.Err())
		}
		w.mu.Lock()
		w.answered.Store(true) // the transport may still send the request, without effect from now on
		w.mu.Unlock()
		w.renew()
		resp.Body = body{&watched{w, resp.Body}, resp.Body}
		return resp, nil
	})
}

// A body is one with another reader.
type body struct {
	io.Reader
	io.Closer
}

// slowly makes the window at least as long as within, and the floor bufferSize. Servers that scan what they send or
// have received send very little until the scan is finished.
func (w *watch) slowly(within time.Duration) {
	w.window, w.floor = max(w.window, within), bufferSize
	w.renew()
}

// await sets the time until the answer begins, if a longer one is permitted once the request was sent.
func (w *watch) await(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.answered.Load() && w.waiting > 0 && w.firstByte > w.window {
		w.waiting = d
		w.timer.Reset(d)
	}
}

func (w *watch) renew() { w.left, w.got = w.window, 0 }

func (w *watch) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	why, within := errNoAnswer, max(w.window, w.waiting)
	switch {
	case w.waiting == 0: // the wait has just ended
		return
	case w.answered.Load() && w.waiting == w.idle && w.idle < w.window:
		why, within = errIdle, w.idle
	case w.answered.Load():
		why = errTooLittle
	}
	w.cancel(fmt.Errorf("%w within %s", why, round(within)))
}

// while calls f, which waits for the server and returns the number of bytes received.
func (w *watch) while(f func() int) {
	limit := min(w.left, w.budget)
	if w.idle > 0 {
		limit = min(limit, w.idle)
	}
	start := time.Now()
	w.set(max(1, limit))
	n := f()
	w.set(0)
	waited := time.Since(start)
	w.waited += waited
	w.left -= waited
	w.budget -= waited
	w.got += n
	if w.got >= w.floor {
		w.renew()
	}
}

// set sets the timer, or stops it if d is 0.
func (w *watch) set(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting = d; d == 0 {
		w.timer.Stop()
	} else {
		w.timer.Reset(d)
	}
}

// A watched reader reads a body under a watch.
type watched struct {
	watch *watch
	from  io.Reader
}

// Read implements [io.Reader]. Errors other than io.EOF are marked as broken connections.
func (r *watched) Read(p []byte) (n int, err error) {
	r.watch.while(func() int {
		n, err = r.from.Read(p)
		return n
	})
	if err == nil || err == io.EOF && r.watch.ctx.Err() == nil { // after a cancellation it may not be the end of the body
		return n, err
	}
	return n, ended(r.watch.ctx, broken{err})
}
