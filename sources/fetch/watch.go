package fetch

import (
	"context"
	"fmt"
	"io"
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

	answered atomic.Bool // whether there is an answer, of which more is awaited
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

// limit bounds all waiting from now on, however much arrives meanwhile.
func (w *watch) limit(budget time.Duration) { w.budget, w.capped = budget, true }

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

func (w *watch) renew() { w.left, w.got = w.window, 0 }

func (w *watch) expire() {
	what := "no answer"
	if w.answered.Load() {
		what = "too little arrived"
	}
	w.cancel(fmt.Errorf("%w: %s within %s", ErrStalled, what, round(w.window)))
}

// while runs f, which waits for the server and returns how many bytes came.
func (w *watch) while(f func() int) {
	start := time.Now()
	w.timer.Reset(w.allowance())
	n := f()
	w.timer.Stop()
	waited := time.Since(start)
	w.waited += waited
	w.left -= waited
	w.budget -= waited
	w.got += n
	if w.got >= w.floor {
		w.renew()
	}
}

func (w *watch) allowance() time.Duration {
	if w.capped {
		return max(0, min(w.left, w.budget))
	}
	return max(0, w.left)
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
