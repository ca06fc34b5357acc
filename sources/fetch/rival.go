package fetch

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// A rival is a second connection for an archive, for when the first one brings
// nothing for a while. The first one goes on, because the server may be scanning
// the archive. The one that first brings a buffer's length beyond the bytes in
// the stage, or the end, takes over, and the other one is closed.
type rival struct {
	*download // does not change while the rival exists
	stop      context.CancelFunc
	done      chan struct{}
	settled   atomic.Bool // whether one of the two has taken over

	// Set when the rival is done, if it has taken over.
	answer *stream
	head   []byte // what it has brought
	err    error  // io.EOF if that is the end of the archive
}

var errOvertaken = errors.New("another connection was faster")

// next fills d.buf with the bytes that follow those in the stage, as fill does.
// If a rival takes over, its answer replaces a.
func (d *download) next(ctx context.Context, a *stream) (n int, err error) {
	var r *rival
	w := a.w
	w.onLate(func(patience time.Duration) { r = d.compete(ctx, w, patience) })
	n, err = fill(a.body, d.buf)
	w.onLate(nil) // from here on, none can start
	if r == nil {
		return n, err
	}
	w.widen(d.window())
	if (err == nil || isEnd(err)) && r.settled.CompareAndSwap(false, true) {
		r.stop()
	}
	<-r.done
	if r.answer == nil {
		r.stop()
		return n, err
	}
	a.close()
	*a = *r.answer
	return copy(d.buf, r.head), r.err
}

// compete starts a rival of the connection that w watches.
func (d *download) compete(ctx context.Context, w *watch, patience time.Duration) *rival {
	d.rivals++
	ctx, stop := context.WithCancel(ctx)
	r := &rival{download: d, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		if d.client.standing(d.client.host(d.url)).recent() {
			return // another request would be too many
		}
		way := &way{over: d.client.archives, plain: true, effort: &effort{tries: 1}} // takes no turn: it has that of the first connection
		a, err := d.connect(ctx, way, patience)
		if err != nil {
			return
		}
		a.stop = stop
		err = r.catchUp(a)
		if err != nil || !r.settled.CompareAndSwap(false, true) {
			a.close()
			return
		}
		r.answer = a
		w.cancel(errOvertaken)
	}()
	return r
}

// catchUp receives what is in the stage, unless the answer is for the rest of
// the archive, and then the next bytes. An error means that the answer can't
// take over.
func (r *rival) catchUp(a *stream) error {
	if !a.brings() {
		return errors.New("no archive")
	}
	body := bufio.NewReaderSize(a.body, bufferSize)
	a.body = body
	start, _ := body.Peek(maxPreamble) // an error only means that there are fewer bytes
	if _, err := r.check(a, start); err != nil {
		return err
	}
	if a.isWhole() && r.have > 0 {
		spool, err := r.stage.Spool()
		if err != nil {
			return err
		}
		a.spool = spool
		if _, err := io.CopyN(io.NewOffsetWriter(spool, 0), body, r.have); err != nil {
			return err
		}
	}
	buf := make([]byte, bufferSize)
	n, err := fill(body, buf)
	if n == 0 {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	r.head, r.err = buf[:n], err
	return unlessEnd(err)
}
