package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
)

// A watch ends a request in which nothing happens for too long.
type watch struct {
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	timeout time.Duration
}

// newWatch returns a watch and the context that it cancels. The caller must call stop.
func newWatch(ctx context.Context, timeout time.Duration) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{cancel: cancel, timeout: timeout}
	w.timer = time.AfterFunc(timeout, func() { cancel(fmt.Errorf("%w: nothing happened for too long", fetch.ErrStalled)) })
	return ctx, w
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// wait begins a phase in which nothing may happen for a while.
func (w *watch) wait(d time.Duration) { w.timer.Reset(d) }

// reader returns a reader of an answer's body, which extends the wait with each
// read, up to a limit for the whole body.
func (w *watch) reader(r io.Reader) io.Reader {
	return &watched{r, w, time.Now().Add(answerWindows * w.timeout)}
}

type watched struct {
	io.Reader
	*watch
	end time.Time
}

func (r *watched) Read(p []byte) (int, error) {
	r.wait(min(r.timeout, time.Until(r.end)))
	return r.Reader.Read(p)
}

// A body is the body of a request, whose bytes are counted. The transport may go
// on reading it after it returned an answer.
type body struct {
	watch *watch
	tell  func(n int) // may be nil

	mu   sync.Mutex
	data io.Reader
	sent int // in bytes
	done bool
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return 0, errors.New("the request has ended")
	}
	n, err := b.data.Read(p)
	b.watch.wait(b.watch.timeout)
	b.count(n)
	return n, err
}

func (b *body) Close() error { return nil }

// end ends reading. If the request failed, its bytes no longer count as sent.
func (b *body) end(failed bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done = true; failed {
		b.count(-b.sent)
	}
}

func (b *body) count(n int) {
	b.sent += n
	if b.tell != nil && n != 0 {
		b.tell(n)
	}
}
