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

// A parts downloads an archive over several connections at once. The part at
// the stage's position goes directly to the stage, later parts go to the spool.
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

	reserve   io.ReadCloser // the first connection, the fallback if the others fail; nil once it is not needed
	reserveAt int64         // offset in the archive of the next byte from reserve

	mu      sync.Mutex
	changed *sync.Cond
	turn    int              // the part that the stage receives next
	taken   int              // parts that are downloaded or being downloaded
	spooled map[int]bool     // parts that are complete in the spool
	watches [maxAhead]*watch // watches over parts, by slot
	err     error            // why the download has failed
}

// inParts continues a download over several connections. The answer brings the
// rest of the archive, more slowly than several connections may.
func (d *download) inParts(ctx context.Context, a *answer, spool sources.Spool, rate float64) error {
	defer spool.Close()
	ctx, stop := context.WithCancelCause(ctx)
	size := min(max(int64(rate*partTime.Seconds()), minPart), maxPart)
	p := &parts{
		download: d, at: a.at, header: a.resp.Request.Header.Clone(), spool: spool,
		first: d.have, size: size, count: int((d.total - d.have + size - 1) / size),
		stop: stop, spooled: map[int]bool{},
	}
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(func() { p.hurry(ctx) })
	p.give(p.run(ctx, a.w, &first{a.body, a.resp.Body}, rate))
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

// first is the first connection: its watched body, and the function to close
// it.
type first struct {
	io.Reader
	io.Closer
}

// fallBack continues over the first connection, after the bytes that the other
// connections have downloaded.
func (p *parts) fallBack() error {
	if _, err := io.CopyN(io.Discard, p.reserve, p.have-p.reserveAt); err != nil {
		return p.err
	}
	return p.copy(p.reserve)
}

// dismiss closes the first connection once it is more than this many bytes
// behind.
func (p *parts) dismiss(behind int64) {
	if p.reserve != nil && p.have-p.reserveAt > behind {
		p.reserve.Close()
		p.reserve = nil
	}
}

// run downloads all parts: over the first connection until another connection
// has a later part, then over all connections.
func (p *parts) run(ctx context.Context, w *watch, body *first, rate float64) error {
	turn, end := 0, false
	for !end && p.claim(turn) {
		if turn == 0 {
			p.running.Go(func() { p.grow(ctx, rate) })
		}
		p.arriving(turn, w)
		var err error
		if end, err = p.straight(ctx, body, turn); err != nil {
			return err
		}
		turn++
	}
	p.reserve, p.reserveAt = body, p.have
	if end {
		p.dismiss(-1)
	}
	p.running.Go(func() { p.work(ctx) })
	for ; turn < p.count; turn++ {
		if err := p.join(turn); err != nil {
			return err
		}
		p.dismiss(maxBehind)
	}
	p.dismiss(-1)
	return nil
}

// grow adds connections as long as that increases the speed. Rate is the speed
// of the first one in bytes a second.
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

// hurry ends the connection that all others wait for if it has almost stopped.
// The other connections have downloaded all parts that fit into the spool, and
// a new connection may be as fast as they are. If no further connection has
// been answered yet, the first one continues alone.
func (p *parts) hurry(ctx context.Context) {
	var most, before int64
	for sleep(ctx, patience) == nil {
		arrived := p.arrived.Load()
		came := arrived - before
		before, most = arrived, max(most, came)
		if came < most/trickle {
			if !p.answers.Load() {
				p.give(broken{fmt.Errorf("in parts: %w within %s", errSilent, patience)})
				return
			}
			p.again()
			most /= forgiving
		}
	}
}

// again ends the download of the part that the stage receives next, so that its
// rest is requested again.
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

// help downloads parts while the host permits another connection, and is not in
// trouble.
func (p *parts) help(ctx context.Context) {
	h := p.client.host(p.at)
	for more := true; more && !p.client.standing(h).recent(); {
		release, ok := h.takeNow()
		if !ok {
			return
		}
		more = p.bringNext(ctx)
		release()
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
	at := p.slot(part) - begin
	err := p.bring(ctx, begin, end, make([]byte, bufferSize), func(b []byte, offset int64) error {
		_, err := p.spool.WriteAt(b, at+offset)
		return err
	})
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

// claim makes the first connection responsible for a part. It returns false if
// the part is taken.
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

// straight copies a part from the first connection to the stage, and reports
// whether that connection has ended.
func (p *parts) straight(ctx context.Context, body io.Reader, part int) (end bool, err error) {
	_, last := p.span(part)
	for p.have < last {
		n, end, err := fill(body, p.buf[:min(bufferSize, last-p.have)])
		p.arrived.Add(int64(n))
		if err := p.keep(p.buf[:n]); err != nil {
			return false, err
		}
		if (end || err != nil) && p.have < last {
			return true, p.bring(ctx, p.have, last, p.buf, func(b []byte, _ int64) error { return p.keep(b) })
		}
	}
	return false, nil
}

// join copies a part from the spool to the stage, once it is complete.
func (p *parts) join(part int) error {
	if err := p.await(part); err != nil {
		return err
	}
	begin, end := p.span(part)
	from := io.NewSectionReader(p.spool, p.slot(part), end-begin)
	for p.have < end {
		n, _, err := fill(from, p.buf[:min(bufferSize, end-p.have)])
		if n == 0 {
			return fmt.Errorf("reading the downloaded part: %w", cmp.Or(err, io.ErrUnexpectedEOF))
		}
		if err := p.keep(p.buf[:n]); err != nil {
			return err
		}
	}
	return nil
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

// bring downloads the bytes of the archive from begin to end, and passes them
// to a function piece by piece.
func (p *parts) bring(ctx context.Context, begin, end int64, buf []byte, to func(b []byte, offset int64) error) error {
	err := p.client.retry(ctx, p.url, nil, min(p.tries, partTries), func() (bool, error) {
		from := begin
		err := p.ask(ctx, begin, end, buf, func(b []byte) error {
			err := to(b, begin)
			begin += int64(len(b))
			return err
		})
		if err != nil {
			err = elsewhere(p.url, p.at, err)
		}
		return begin >= from+bufferSize, err
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

// ask sends one request for a range of the archive.
func (p *parts) ask(ctx context.Context, begin, end int64, buf []byte, to func([]byte) error) error {
	ctx, w := newWatch(ctx, p.client.opts.Timeout)
	defer w.stop()
	header := p.header.Clone()
	header.Set("Range", fmt.Sprintf("bytes=%d-%d", begin, end-1))
	header.Set("If-Range", p.validator)
	resp, at, err := p.client.send(ctx, w, &way{over: p.client.archives, plain: true}, p.at, header, defaultRedirects)
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		resp.Body.Close()
		return errors.New("archive has changed")
	default:
		return p.refused(at, resp)
	}
	defer resp.Body.Close()
	length, err := p.checkPart(resp, begin, end)
	if err != nil {
		return err
	}
	p.answers.Store(true)
	p.arriving(int((begin-p.first)/p.size), w)
	return p.pass(w.reader(resp.Body), length, buf, to)
}

// refused returns the error for a rejected part. A server that requests a wait
// permits no more connections. Larder ignores the wait, because the first
// connection continues without it, and does not request the part again.
func (p *parts) refused(at *url.URL, resp *http.Response) error {
	wait := resp.Header.Get("Retry-After")
	resp.Header.Del("Retry-After")
	err := p.client.refusal(at, resp)
	if wait != "" {
		return errors.New(err.Error())
	}
	return err
}

// checkPart returns the number of bytes in the answer, which may be less than
// requested.
func (p *parts) checkPart(resp *http.Response, begin, end int64) (length int64, err error) {
	first, last, total, err := parseContentRange(resp.Header.Get("Content-Range"))
	if err != nil {
		return 0, err
	}
	if first != begin || last < first || last >= end || total != p.total {
		return 0, fmt.Errorf("asked for bytes %d to %d of %d, got %d to %d of %d", begin, end-1, p.total, first, last, total)
	}
	if v := validator(resp.Header); v != "" && v != p.validator {
		return 0, errors.New("archive has changed")
	}
	if compressed(resp) {
		return 0, errors.New("a part of a compressed archive")
	}
	return last + 1 - first, nil
}

// pass passes length bytes of a body to a function.
func (p *parts) pass(body io.Reader, length int64, buf []byte, to func([]byte) error) error {
	for length > 0 {
		n, end, err := fill(body, buf[:min(int64(len(buf)), length)])
		length -= int64(n)
		p.arrived.Add(int64(n))
		if err := to(buf[:n]); err != nil {
			return err
		}
		switch {
		case length == 0:
		case end:
			return broken{fmt.Errorf("cut %d bytes before the end of a part", length)}
		case err != nil:
			return err
		}
	}
	return nil
}
