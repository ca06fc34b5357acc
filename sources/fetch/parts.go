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

	"golang.org/x/sync/semaphore"

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
// are if Larder waits for the server rather than for the disk, much is left, and other archives leave enough
// connections.
func (m *meter) slow(d *download) float64 {
	if m == nil || time.Since(m.since) < trial {
		return 0
	}
	took, waited := time.Since(m.since), m.watch.waited-m.waited
	rate, rest := float64(d.have-m.have)/took.Seconds(), d.total-d.have
	m.since, m.waited, m.have = time.Now(), m.watch.waited, d.have
	worth := waited > took/2 && rest > 2*maxPart && float64(rest) > rate*minRest.Seconds()
	if !worth || m.host.recent() || !m.host.slots.TryAcquire(leastFree) {
		return 0
	}
	m.host.slots.Release(leastFree)
	return rate
}

// A parts downloads the rest of an archive over several connections at once. Parts arrive in any order, so they go
// through the spool, which has room for a few of them.
type parts struct {
	*download
	first   *answer // over the first connection, which waits until another one has been answered
	spool   sources.Spool
	begin   int64 // offset of part 0 in the archive
	size    int64 // of a part, in bytes
	count   int
	within  time.Duration // for a request; a slower connection is replaced by another one
	running sync.WaitGroup

	answers  atomic.Bool   // whether any further connection has been answered
	answered chan struct{} // closed then
}

// inParts continues a download over several connections. The answer brings the rest of the archive at this rate in
// bytes a second, more slowly than several connections may. If they fail before any has been answered, it still brings
// it.
func (d *download) inParts(ctx context.Context, a *answer, spool sources.Spool, rate float64) error {
	defer spool.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	size := min(max(int64(rate*partTime.Seconds()), minPart), maxPart)
	p := &parts{
		download: d, first: a, spool: spool, answered: make(chan struct{}),
		begin: d.have, size: size, count: int((d.total - d.have + size - 1) / size),
		within: max(minPartTime, time.Duration(2*maxConnections*float64(size)/rate*float64(time.Second))),
	}
	started := make(chan chan error, maxConnections) // of each part, in order
	p.running.Go(func() { p.start(ctx, stop, started) })
	part := 0
	for done := range started {
		if err := <-done; err == nil && ctx.Err() == nil {
			if err = p.join(part); err != nil {
				stop(err)
			}
		}
		part++
	}
	p.running.Wait()
	err := context.Cause(ctx)
	if d.alone = err != nil; err == nil { // whatever the reason, a single connection needs less of the server
		return nil
	}
	if d.stageErr != nil || p.answers.Load() {
		return cmp.Or(d.stageErr, err)
	}
	before := d.have
	if _, failed := d.copy(a.resp.Body, 0, nil, nil); failed == nil || d.have > before {
		return failed
	}
	return err
}

// start downloads all parts: one, and once that is answered, as many at the same time as the spool has room for and the
// host permits. The first error
// ends it.
func (p *parts) start(ctx context.Context, stop context.CancelCauseFunc, started chan<- chan error) {
	defer close(started)
	host := p.client.host(p.first.at)
	own := semaphore.NewWeighted(1) // the slot of the first connection
	for part := range p.count {
		done := make(chan error, 1)
		select {
		case started <- done:
		case <-ctx.Done():
			return
		}
		slot := own
		if !own.TryAcquire(1) {
			if slot = host.slots; host.recent() || !slot.TryAcquire(1) {
				slot = own
				_ = own.Acquire(ctx, 1) // an error ends the part, too
			}
		}
		p.running.Go(func() {
			err := p.fetch(ctx, part)
			if slot == host.slots || ctx.Err() == nil {
				slot.Release(1)
			}
			if err != nil {
				stop(err)
			}
			done <- err
		})
		select { // the server may not permit another connection at all
		case <-p.answered:
		case <-ctx.Done():
			return
		}
	}
}

// span returns the range of a part in the archive, and its offset in the spool.
func (p *parts) span(part int) (begin, end, at int64) {
	begin = p.begin + int64(part)*p.size
	return begin, min(begin+p.size, p.total), int64(part%maxAhead) * p.size
}

// join copies a part from the spool to the stage.
func (p *parts) join(part int) error {
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
	t := &tries{most: 1}
	if p.answers.Load() {
		t.most = min(p.tries.most, partTries)
	}
	err := p.client.retry(ctx, p.url, t, func() (bool, error) {
		n, err := p.request(ctx, t, io.NewOffsetWriter(p.spool, at), begin, end)
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

// request sends one request for a range of the archive, and returns how many bytes it wrote.
func (p *parts) request(ctx context.Context, t *tries, to io.Writer, begin, end int64) (n int64, err error) {
	ctx, w := p.client.attempt(ctx, t)
	defer w.stop()
	w.budget = p.within
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
		close(p.answered)
		p.first.resp.Body.Close()
	}
	n, err = io.CopyN(to, a.resp.Body, length)
	if isEnd(err) {
		err = broken{fmt.Errorf("cut %d bytes before the end of a part", length-n)}
	}
	return n, err
}
