package fetch

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A watch ends a try that has waited too long for too little. Only time spent
// waiting for the server counts: a slow disk is none of its fault.
type watch struct {
	ctx    context.Context // of the try, which the watch may end
	cancel context.CancelCauseFunc
	timer  *time.Timer

	window time.Duration // to wait for floor bytes
	floor  int
	left   time.Duration // of the window
	got    int           // in the window
	waited time.Duration // in all
	budget time.Duration // left of all waiting, once it is limited
	capped bool

	steady   func()      // ends the time in which little may arrive; nil once it has ended
	answered atomic.Bool // whether there is an answer, of which more is awaited

	patience time.Duration // for the answer once the request is sent; 0 means the window
	mu       sync.Mutex
	waiting  time.Duration // that the timer is set to; 0 if it is not
}

// newWatch returns a watch and the context that it cancels. Its stop must be
// called.
func newWatch(ctx context.Context, window time.Duration) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{ctx: ctx, cancel: cancel, window: window, floor: max(1, int(minRate*window.Seconds()))}
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	w.renew()
	return ctx, w
}

// slowly lets the first bytes of a body take a time that is longer than the window. Servers
// that scan an archive for malware first send little or nothing of it meanwhile.
func (w *watch) slowly(bytes int, within time.Duration) {
	if within <= w.window {
		return
	}
	window, floor := w.window, w.floor
	w.steady = func() { w.window, w.floor, w.steady = window, floor, nil }
	w.window, w.floor = within, bytes
	w.renew()
}

// sent says that the request is sent: from now on the patience holds, if there is any. A
// server that fetches an archive from elsewhere first is as silent as one that is dead.
func (w *watch) sent() { w.await(w.patience) }

// begun says that the answer begins to arrive: patience is over.
func (w *watch) begun() { w.await(w.window) }

func (w *watch) await(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting > 0 && w.patience > w.window && !w.answered.Load() {
		w.waiting = d
		w.timer.Reset(d)
	}
}

// limit bounds all waiting from now on, however much arrives meanwhile.
func (w *watch) limit(budget time.Duration) { w.budget, w.capped = budget, true }

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

func (w *watch) renew() { w.left, w.got = w.window, 0 }

func (w *watch) expire() {
	why := errSilent
	if w.answered.Load() {
		why = errTooLittle
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel(fmt.Errorf("%w within %s", why, round(max(w.window, w.waiting))))
}

// while runs f, which waits for the server and returns how many bytes came.
func (w *watch) while(f func() int) {
	start := time.Now()
	w.set(w.allowance())
	n := f()
	w.set(0)
	waited := time.Since(start)
	w.waited += waited
	w.left -= waited
	w.budget -= waited
	w.got += n
	if w.got < w.floor {
		return
	}
	if w.steady != nil {
		w.steady()
	}
	w.renew()
}

// set sets the timer, or stops it if d is 0.
func (w *watch) set(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting = d; d > 0 {
		w.timer.Reset(d)
	} else {
		w.timer.Stop()
	}
}

func (w *watch) allowance() time.Duration {
	if w.capped {
		return max(1, min(w.left, w.budget))
	}
	return max(1, w.left)
}

// reader is r, watched.
func (w *watch) reader(r io.Reader) io.Reader { return &watched{w, r} }

type watched struct {
	watch *watch
	from  io.Reader
}

// Read reads. Its errors other than io.EOF are those of a broken connection.
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
	default: // an end that comes as we hang up may be none
		return n, ended(r.watch.ctx, broken{err})
	}
}
