package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A meter measures the speed of an archive over its first connection.
type meter struct {
	host   *host
	watch  *watch
	since  time.Time
	waited time.Duration // time waited for the server before since
	have   int64         // bytes in the stage at since
}

// newMeter returns nil if the archive can't be downloaded in parts.
func (d *download) newMeter(a *answer) *meter {
	ranges := a.resp.StatusCode == http.StatusPartialContent || a.resp.Header.Get("Accept-Ranges") == "bytes"
	if !ranges || d.alone || d.latency >= maxLatency || d.validator == "" || d.total <= 0 {
		return nil
	}
	return &meter{d.client.host(a.at), a.watch, time.Now(), a.watch.waited, d.have}
}

// slow returns the speed of the connection in bytes a second if more connections are worth it, and otherwise 0. They
// are if Larder waits for the server rather than for the disk, much is left, and the host permits them.
func (m *meter) slow(d *download) float64 {
	if m == nil || time.Since(m.since) < trial {
		return 0
	}
	took, waited := time.Since(m.since), m.watch.waited-m.waited
	rate, rest := float64(d.have-m.have)/took.Seconds(), d.total-d.have
	m.since, m.waited, m.have = time.Now(), m.watch.waited, d.have
	worth := waited > took/2 && rest > 2*maxPart && float64(rest) > rate*minRest.Seconds()
	if !worth || !m.host.hasRoom(d.client.opts.PerHost) {
		return 0
	}
	return rate
}

// A parts downloads the rest of an archive over several connections at once. Parts arrive in any order, so they go
// through the spool, which has room for a few of them.
type parts struct {
	*download
	first *answer // over the first connection, which waits until another one has been answered
	host  *host
	spool sources.Spool
	begin int64 // offset of part 0 in the archive
	size  int64 // of a part, in bytes
	count int

	stop    context.CancelCauseFunc // ends the download, with the first error
	running sync.WaitGroup
	arrived atomic.Int64 // bytes received
	answers atomic.Bool  // whether any further connection has been answered

	mu      sync.Mutex
	changed *sync.Cond
	next    int              // the part that the stage receives next
	taken   int              // parts that are downloaded or being downloaded
	spooled map[int]bool     // parts that are complete in the spool
	watches [maxAhead]*watch // over parts, by slot of the spool
}

// inParts continues a download over several connections. The answer brings the rest of the archive at this rate in
// bytes a second, more slowly than several connections may. If they fail before any has been answered, it still brings
// it.
func (d *download) inParts(ctx context.Context, a *answer, spool sources.Spool, rate float64) error {
	defer spool.Close()
	ctx, stop := context.WithCancelCause(ctx)
	size := min(max(int64(rate*partTime.Seconds()), minPart), maxPart)
	p := &parts{
		download: d, first: a, host: d.client.host(a.at), spool: spool,
		begin: d.have, size: size, count: int((d.total - d.have + size - 1) / size),
		stop: stop, spooled: map[int]bool{},
	}
	p.changed = sync.NewCond(&p.mu)
	defer context.AfterFunc(ctx, func() { p.change(func() {}) })()
	p.running.Go(func() { p.work(ctx) }) // in place of the first connection
	p.running.Go(func() { p.grow(ctx, rate) })
	p.running.Go(func() { p.endStalled(ctx, rate) })
	var err error
	for part := 0; part < p.count && err == nil; part++ {
		err = p.join(ctx, part)
	}
	stop(err)
	p.running.Wait()
	if d.alone = err != nil; err == nil { // whatever the reason, a single connection needs less of the server
		return nil
	}
	if err = cmp.Or(d.stageErr, context.Cause(ctx)); d.stageErr != nil || p.answers.Load() {
		return err
	}
	before := d.have
	if _, failed := d.copy(a.resp.Body, 0, nil, nil); failed == nil || d.have > before {
		return failed
	}
	return err
}

// change changes the state, and wakes those that wait for it.
func (p *parts) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

// grow adds connections as long as that increases the speed. Rate is that of the first one in bytes a second.
func (p *parts) grow(ctx context.Context, rate float64) {
	for before, step := 0.0, 1; step < len(widths) && rate >= minGain*before; step++ {
		for range widths[step] - widths[step-1] {
			p.running.Go(func() { p.help(ctx) })
		}
		arrived := int64(0)
		for _, d := range []time.Duration{p.latency, trial} { // first until their answers begin
			arrived = p.arrived.Load()
			if sleep(ctx, d) != nil {
				return
			}
		}
		before, rate = rate, float64(p.arrived.Load()-arrived)/trial.Seconds()
	}
}

// endStalled ends the connection that all others wait for if it has almost stopped, so that the rest of its part is
// requested again. The other connections have downloaded all parts that fit into the spool, and a new connection may be
// as fast as they are. If none has been answered yet, the first connection continues alone.
func (p *parts) endStalled(ctx context.Context, rate float64) {
	most, before := int64(rate*stallCheck.Seconds()), int64(0)
	for sleep(ctx, stallCheck) == nil {
		arrived := p.arrived.Load()
		came := arrived - before
		before, most = arrived, max(most, came)
		if came >= most/trickle {
			continue
		}
		if !p.answers.Load() {
			p.stop(broken{fmt.Errorf("in parts: %w within %s", errNoAnswer, stallCheck)})
			return
		}
		p.change(func() {
			if w := p.watches[p.next%maxAhead]; w != nil {
				w.cancel(fmt.Errorf("%w: almost no data within %s", ErrStalled, stallCheck))
			}
		})
		most /= forgiving
	}
}

// help downloads parts while the host permits another connection, and is available.
func (p *parts) help(ctx context.Context) {
	for more := true; more && !p.host.recent() && p.host.slots.TryAcquire(1); p.host.slots.Release(1) {
		more = p.fetchNext(ctx)
	}
}

// work downloads parts until none is left.
func (p *parts) work(ctx context.Context) {
	for p.fetchNext(ctx) {
	}
}

// fetchNext downloads the next part, once the spool has room for it. It returns false if there is none, or it failed.
func (p *parts) fetchNext(ctx context.Context) bool {
	part := -1
	p.change(func() {
		for ctx.Err() == nil && p.taken < p.count && p.taken >= p.next+maxAhead {
			p.changed.Wait()
		}
		if ctx.Err() == nil && p.taken < p.count {
			part = p.taken
			p.taken++
		}
	})
	if part < 0 {
		return false
	}
	if err := p.fetch(ctx, part); err != nil {
		p.stop(err)
		return false
	}
	p.change(func() { p.spooled[part] = true })
	return true
}

// span returns the range of a part in the archive, and its offset in the spool.
func (p *parts) span(part int) (begin, end, at int64) {
	begin = p.begin + int64(part)*p.size
	return begin, min(begin+p.size, p.total), int64(part%maxAhead) * p.size
}

// join copies a part from the spool to the stage, once it is complete.
func (p *parts) join(ctx context.Context, part int) error {
	p.change(func() {
		p.next = part
		p.changed.Broadcast()
		for ctx.Err() == nil && !p.spooled[part] {
			p.changed.Wait()
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	begin, end, at := p.span(part)
	_, err := io.CopyBuffer(p, io.NewSectionReader(p.spool, at, end-begin), p.buf)
	if p.stageErr == nil && (err != nil || p.have < end) {
		err = fmt.Errorf("reading the downloaded part: %w", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return err
}

// fetch downloads a part to the spool.
func (p *parts) fetch(ctx context.Context, part int) error {
	begin, end, at := p.span(part)
	t := &tries{most: min(p.tries.most, partTries)}
	err := p.client.retry(ctx, p.url, t, func() (bool, error) {
		n, err := p.request(ctx, t, part, io.NewOffsetWriter(p.spool, at), begin, end)
		begin, at = begin+n, at+n
		return n >= bufferSize, elsewhere(p.url, p.first.at, err)
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	// Whatever has failed, a single connection may not need it.
	if failed, ok := errors.AsType[*Error](err); ok {
		err = failed.Err
	}
	if from, ok := errors.AsType[*redirected](err); ok && from.to == bare(p.first.at) {
		err = from.err // the download's error names the redirect target
	}
	return broken{errors.New("in parts: " + err.Error())}
}

// request sends one request for a range of the archive, in a part of it, and returns how many bytes it wrote.
func (p *parts) request(ctx context.Context, t *tries, part int, to io.Writer, begin, end int64) (n int64, err error) {
	ctx, w := p.client.attempt(ctx, t)
	defer w.stop()
	header := p.first.header.Clone()
	header.Set("Range", fmt.Sprintf("bytes=%d-%d", begin, end-1))
	header.Set("If-Range", p.validator)
	a, err := p.client.follow(ctx, p.client.archives, p.first.at, header, archiveRedirects)
	if err != nil {
		return 0, err
	}
	defer a.resp.Body.Close()
	switch a.resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		return 0, errors.New("archive has changed")
	default:
		// A server that requests a wait permits no more connections. Larder ignores the wait, because the first
		// connection continues without it, and does not request the part again.
		wait := a.resp.Header.Get("Retry-After")
		a.resp.Header.Del("Retry-After")
		if err = a.refusal(); wait != "" {
			err = errors.New(err.Error())
		}
		return 0, err
	}
	length, _, err := p.checkRange(a.resp, begin, end)
	if err != nil {
		return 0, err
	}
	if !p.answers.Swap(true) {
		p.first.resp.Body.Close()
	}
	p.change(func() { p.watches[part%maxAhead] = w.watch })
	n, err = io.CopyN(to, &counted{a.resp.Body, &p.arrived}, length)
	if isEnd(err) {
		err = broken{fmt.Errorf("cut %d bytes before the end of a part", length-n)}
	}
	return n, err
}
