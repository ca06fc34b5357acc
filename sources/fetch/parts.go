package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/larder-cli/larder/sources"
)

// A parts downloads an archive over several connections at once. The part at the stage's position goes directly to the
// stage, later parts go to the spool.
type parts struct {
	*download
	at     *url.URL    // the archive's URL after redirects
	header http.Header // headers for requests
	spool  sources.Spool
	first  int64 // offset of part 0 in the archive
	size   int64 // of a part, in bytes
	count  int

	stop    context.CancelCauseFunc
	running sync.WaitGroup
	arrived atomic.Int64 // bytes received over all connections
	answers atomic.Bool  // whether any further connection has been answered

	reserve   *stream // the first connection, the fallback if the others fail; nil once it is not needed
	reserveAt int64   // offset in the archive of the next byte from reserve

	mu      sync.Mutex
	changed *sync.Cond
	turn    int              // the part that the stage receives next
	taken   int              // parts that are downloaded or being downloaded
	spooled map[int]bool     // parts that are complete in the spool
	watches [maxAhead]*watch // watches over parts, by slot
	err     error            // why the download has failed
}

// inParts continues a download over several connections. The answer brings the rest of the archive, more slowly than
// several connections may.
func (d *download) inParts(ctx context.Context, a *stream, spool sources.Spool, rate float64) error {
	defer spool.Close()
	ctx, stop := context.WithCancelCause(ctx)
	size := min(max(int64(rate*partTime.Seconds()), minPart), maxPart)
	p := &parts{
		download: d, at: a.at, header: a.header, spool: spool,
		first: d.have, size: size, count: int((d.total - d.have + size - 1) / size),
		stop: stop, spooled: map[int]bool{},
	}
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(func() { p.hurry(ctx) })
	p.give(p.run(ctx, a, rate))
	stop(nil)
	p.running.Wait()
	d.alone = p.err != nil // whatever the reason, a single connection needs less of the server
	switch {
	case d.stageErr != nil:
		return d.stageErr
	case p.err != nil && p.reserve != nil: // the first connection may still work
		return p.fallBack()
	}
	return p.err
}

// fallBack continues over the first connection, after the bytes that the other connections have downloaded.
func (p *parts) fallBack() error {
	if _, err := io.CopyN(io.Discard, p.reserve.body, p.have-p.reserveAt); err != nil {
		return p.err
	}
	return p.copy(p.reserve.body)
}

// dismiss closes the first connection once another one has been answered, or once it is far behind: until then, the
// server sends bytes that the others request again.
func (p *parts) dismiss() {
	if p.reserve != nil && (p.answers.Load() || p.have-p.reserveAt > maxBehind) {
		p.reserve.resp.Body.Close()
		p.reserve = nil
	}
}

// run downloads all parts: over the first connection until another connection has a later part, then over all
// connections.
func (p *parts) run(ctx context.Context, a *stream, rate float64) error {
	turn, end := 0, false
	for !end && p.claim(turn) {
		if turn == 0 {
			p.running.Go(func() { p.grow(ctx, rate) })
		}
		p.arriving(turn, a.w)
		var err error
		if end, err = p.straight(ctx, a.body, turn); err != nil {
			return err
		}
		turn++
	}
	if !end {
		p.reserve, p.reserveAt = a, p.have
		p.dismiss()
	}
	p.running.Go(func() { p.work(ctx) })
	for ; turn < p.count; turn++ {
		if err := p.join(turn); err != nil {
			return err
		}
		p.dismiss()
	}
	return nil
}

// grow adds connections as long as that increases the speed. Rate is the speed of the first one in bytes a second.
func (p *parts) grow(ctx context.Context, rate float64) {
	var g growth
	for more := g.more(rate); more > 0; more = g.more(rate) {
		for range more {
			p.running.Go(func() { p.help(ctx) })
		}
		if sleep(ctx, p.answered) != nil { // until their answers begin
			return
		}
		before := p.arrived.Load()
		if sleep(ctx, trial) != nil {
			return
		}
		rate = float64(p.arrived.Load()-before) / trial.Seconds()
	}
}

// hurry ends the connection that all others wait for if it has almost stopped. The other connections have downloaded
// all parts that fit into the spool, and a new connection may be as fast as they are. If no further connection has been
// answered yet, the first one continues alone.
func (p *parts) hurry(ctx context.Context) {
	var most, before int64
	for sleep(ctx, patience) == nil {
		arrived := p.arrived.Load()
		came := arrived - before
		before, most = arrived, max(most, came)
		if came < most/trickle {
			if !p.answers.Load() {
				p.give(broken{fmt.Errorf("in parts: %w within %s", errNoAnswer, patience)})
				return
			}
			p.again()
			most /= forgiving
		}
	}
}

// again ends the download of the part that the stage receives next, so that its rest is requested again.
func (p *parts) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.watches[p.turn%maxAhead]; w != nil {
		w.cancel(fmt.Errorf("%w: almost no data within %s", ErrStalled, patience))
	}
}

// arriving sets the watch over a part.
func (p *parts) arriving(part int, w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[part%maxAhead] = w
}

// help downloads parts while the host permits another connection, and is not in trouble.
func (p *parts) help(ctx context.Context) {
	h := p.client.host(p.at)
	for more := true; more && !h.recent(); {
		if !h.slots.TryAcquire(1) {
			return
		}
		more = p.bringNext(ctx)
		h.slots.Release(1)
	}
}

// work downloads parts until none is left.
func (p *parts) work(ctx context.Context) {
	for p.bringNext(ctx) {
	}
}

func (p *parts) bringNext(ctx context.Context) bool {
	part, ok := p.take()
	if !ok {
		return false
	}
	begin, end := p.span(part)
	err := p.bring(ctx, io.NewOffsetWriter(p.spool, p.slot(part)), begin, end, make([]byte, bufferSize))
	p.put(part, err)
	return err == nil
}

// span returns the range of a part in the archive.
func (p *parts) span(part int) (begin, end int64) {
	begin = p.first + int64(part)*p.size
	return begin, min(begin+p.size, p.total)
}

// slot returns the offset of a part in the spool.
func (p *parts) slot(part int) int64 { return int64(part%maxAhead) * p.size }

// claim makes the first connection responsible for a part. It returns false if the part is taken.
func (p *parts) claim(part int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = part
	p.changed.Broadcast()
	if p.taken != part || part == p.count {
		return false
	}
	p.taken++
	return true
}

// take returns the next part to download, once the spool has room for it.
func (p *parts) take() (part int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && p.taken < p.count && p.taken >= p.turn+maxAhead {
		p.changed.Wait()
	}
	if p.err != nil || p.taken == p.count {
		return 0, false
	}
	p.taken++
	return p.taken - 1, true
}

// put records that a part is complete in the spool, or why it failed.
func (p *parts) put(part int, err error) {
	p.mu.Lock()
	p.spooled[part] = err == nil
	p.mu.Unlock()
	p.give(err)
}

// give wakes the waiting goroutines. If err is not nil, it ends the download.
func (p *parts) give(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.err == nil {
		p.err = err
		p.stop(err)
	}
	p.changed.Broadcast()
}

// straight copies a part from the first connection to the stage, and reports whether that connection has ended.
func (p *parts) straight(ctx context.Context, body io.Reader, part int) (end bool, err error) {
	_, last := p.span(part)
	_, err = p.pass(p, body, last-p.have, p.buf)
	if err == nil || p.stageErr != nil {
		return false, err
	}
	return true, p.bring(ctx, p, p.have, last, p.buf)
}

// join copies a part from the spool to the stage, once it is complete.
func (p *parts) join(part int) error {
	if err := p.await(part); err != nil {
		return err
	}
	begin, end := p.span(part)
	_, err := io.CopyBuffer(p, io.NewSectionReader(p.spool, p.slot(part), end-begin), p.buf)
	if p.stageErr == nil && (err != nil || p.have < end) {
		err = fmt.Errorf("reading the downloaded part: %w", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return err
}

func (p *parts) await(part int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = part
	p.changed.Broadcast()
	for p.err == nil && !p.spooled[part] {
		p.changed.Wait()
	}
	return p.err
}

// bring downloads the bytes of the archive from begin to end, and writes them in order.
func (p *parts) bring(ctx context.Context, to io.Writer, begin, end int64, buf []byte) error {
	e := &tries{most: min(p.tries, partTries)}
	err := p.client.retry(ctx, p.url, e, func() (bool, error) {
		n, err := p.ask(ctx, e, to, begin, end, buf)
		if begin += n; err != nil {
			err = elsewhere(p.url, p.at, err)
		}
		return n >= bufferSize, err
	})
	if err != nil && ctx.Err() == nil {
		// Whatever has failed, a single connection may not need it.
		if failed, ok := errors.AsType[*Error](err); ok {
			err = failed.Err
		}
		if from, ok := errors.AsType[*redirected](err); ok && from.to == bare(p.at) {
			err = from.err // the download's error names the redirect target
		}
		return broken{errors.New("in parts: " + err.Error())}
	}
	return err
}

// ask sends one request for a range of the archive, and returns how many bytes it wrote.
func (p *parts) ask(ctx context.Context, e *tries, to io.Writer, begin, end int64, buf []byte) (n int64, err error) {
	ctx, w := p.client.attempt(ctx, e)
	defer w.stop()
	header := p.header.Clone()
	header.Set("Range", fmt.Sprintf("bytes=%d-%d", begin, end-1))
	header.Set("If-Range", p.validator)
	a, err := p.client.follow(ctx, p.client.archives, p.at, header, archiveRedirects)
	if err != nil {
		return 0, err
	}
	defer a.resp.Body.Close()
	switch a.resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		return 0, errors.New("archive has changed")
	default:
		return 0, a.refusedPart()
	}
	length, _, err := p.checkRange(a.resp, begin, end)
	if err != nil {
		return 0, err
	}
	p.answers.Store(true)
	p.arriving(int((begin-p.first)/p.size), w.watch)
	return p.pass(to, a.resp.Body, length, buf)
}

// refusedPart returns the error for a rejected part. A server that requests a wait permits no more connections. Larder
// ignores the wait, because the first connection continues without it, and does not request the part again.
func (a *answer) refusedPart() error {
	wait := a.resp.Header.Get("Retry-After")
	a.resp.Header.Del("Retry-After")
	err := a.refusal()
	if wait != "" {
		return errors.New(err.Error())
	}
	return err
}

// pass writes length bytes of a body, and returns how many it wrote.
func (p *parts) pass(to io.Writer, body io.Reader, length int64, buf []byte) (done int64, err error) {
	for done < length {
		n, err := fill(body, buf[:min(int64(len(buf)), length-done)])
		p.arrived.Add(int64(n))
		if _, err := to.Write(buf[:n]); err != nil {
			return done, err
		}
		done += int64(n)
		switch {
		case done == length:
		case isEnd(err):
			return done, broken{fmt.Errorf("cut %d bytes before the end of a part", length-done)}
		case err != nil:
			return done, err
		}
	}
	return done, nil
}
