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
	answer *answer
	head   []byte // what it has brought
	end    bool   // whether that is the end of the archive
}

var errOvertaken = errors.New("another connection was faster")

// next fills d.buf with the bytes that follow those in the stage, as fill does.
// If a rival takes over, its answer replaces a.
func (d *download) next(ctx context.Context, a *answer) (n int, end bool, err error) {
	var r *rival
	w := a.w
	w.onLate(func(patience time.Duration) { r = d.compete(ctx, w, patience) })
	n, end, err = fill(a.body, d.buf)
	w.onLate(nil) // from here on, none can start
	if r == nil {
		return n, end, err
	}
	w.widen(d.window())
	if err == nil && r.settled.CompareAndSwap(false, true) {
		r.stop()
	}
	<-r.done
	if r.answer == nil {
		r.stop()
		return n, end, err
	}
	a.close()
	*a = *r.answer
	return copy(d.buf, r.head), r.end, nil
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
		way := &way{over: d.client.archives, plain: true} // takes no turn: it has that of the first connection
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
func (r *rival) catchUp(a *answer) error {
	body := bufio.NewReaderSize(a.body, bufferSize)
	a.body = body
	start, _ := body.Peek(maxPreamble) // an error only means that there are fewer bytes
	if err := r.fits(a, start); err != nil {
		return err
	}
	if isWhole(a.resp) && r.have > 0 {
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
	n, end, err := fill(body, buf)
	if n == 0 {
		err = cmp.Or(err, io.ErrUnexpectedEOF)
	}
	r.head, r.end = buf[:n], end
	return err
}

// fits returns an error if an answer, which begins with start, is neither the
// archive nor the rest of it.
func (r *rival) fits(a *answer, start []byte) error {
	switch whole := isWhole(a.resp); {
	case !a.brings():
		return errors.New("no archive")
	case !whole && compressed(a.resp):
		return errors.New("a part of a compressed archive")
	case !whole:
		_, err := r.checkRest(a.resp)
		return err
	}
	return cmp.Or(r.agree(a.size()), a.instead(start))
}

// A keeper writes to the stage of a download.
type keeper struct{ *download }

func (k keeper) Write(p []byte) (int, error) { return len(p), k.keep(p) }
