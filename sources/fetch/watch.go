package fetch

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A watch ends a try that receives too little for too long. Only time spent
// waiting for the server counts, so a slow disk does not end a try.
type watch struct {
	ctx    context.Context // the try's context, which the watch can cancel
	cancel context.CancelCauseFunc
	timer  *time.Timer

	window time.Duration // the time to receive floor bytes
	floor  int
	left   time.Duration // time left in the window
	got    int           // bytes received in the window
	waited time.Duration // total time waited
	budget time.Duration // time left for all waits

	quiet    time.Duration // the longest wait without a byte; 0 means the window
	answered atomic.Bool   // whether the answer has begun

	patience time.Duration // time for the answer to begin after the request was sent; 0 means the window
	mu       sync.Mutex
	waiting  time.Duration // the duration that the timer is set to; 0 if it is stopped
}

// newWatch returns a watch and the context that it cancels. The caller must
// call stop.
func newWatch(ctx context.Context, window time.Duration) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{ctx: ctx, cancel: cancel, budget: math.MaxInt64}
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	w.window, w.floor = window, max(1, int(minRate*window.Seconds()))
	return ctx, w
}

// slowly makes the window at least as long as within, and the floor bufferSize. Servers that
// scan what they send or have received send very little until the scan is finished.
func (w *watch) slowly(within time.Duration) {
	w.window, w.floor = max(w.window, within), bufferSize
	w.renew()
}

// sent records that the request was sent. From now on the patience applies, if
// it is set: while a server fetches an archive from elsewhere, it sends
// nothing, like a dead server.
func (w *watch) sent() { w.await(w.patience) }

// begun records that the answer has begun, which ends the patience.
func (w *watch) begun() { w.await(w.window) }

// answer records that there is an answer. The transport may still send the request, but has no effect on the watch from now on.
func (w *watch) answer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered.Store(true)
}

func (w *watch) await(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.answered.Load() && w.waiting > 0 && w.patience > w.window {
		w.waiting = d
		w.timer.Reset(d)
	}
}

// limit limits the total of all waits from now on, however much is received.
func (w *watch) limit(budget time.Duration) { w.budget = budget }

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

func (w *watch) renew() { w.left, w.got = w.window, 0 }

func (w *watch) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	why, within := errSilent, max(w.window, w.waiting)
	switch {
	case w.waiting == 0: // the wait has just ended
		return
	case w.answered.Load() && w.waiting == w.quiet && w.quiet < w.window:
		why, within = errQuiet, w.quiet
	case w.answered.Load():
		why = errTooLittle
	}
	w.cancel(fmt.Errorf("%w within %s", why, round(within)))
}

// while calls f, which waits for the server and returns the number of bytes
// received.
func (w *watch) while(f func() int) {
	start := time.Now()
	w.set(w.allowance)
	n := f()
	w.set(nil)
	waited := time.Since(start)
	w.waited += waited
	w.left -= waited
	w.budget -= waited
	w.got += n
	if w.got >= w.floor {
		w.renew()
	}
}

// set sets the timer, or stops it if allowance is nil.
func (w *watch) set(allowance func() time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if allowance == nil {
		w.waiting = 0
		w.timer.Stop()
		return
	}
	w.waiting = allowance()
	w.timer.Reset(w.waiting)
}

func (w *watch) allowance() time.Duration {
	left := min(w.left, w.budget)
	if w.quiet > 0 {
		left = min(left, w.quiet)
	}
	return max(1, left)
}

// reader returns r under the watch.
func (w *watch) reader(r io.Reader) io.Reader { return &watched{w, r} }

type watched struct {
	watch *watch
	from  io.Reader
}

// Read implements [io.Reader]. Errors other than io.EOF are marked as broken
// connections.
func (r *watched) Read(p []byte) (n int, err error) {
	r.watch.while(func() int {
		n, err = r.from.Read(p)
		return n
	})
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && r.watch.ctx.Err() == nil:
		return n, io.EOF
	default: // io.EOF after a cancellation may not be the end of the body
		return n, ended(r.watch.ctx, broken{err})
	}
}
