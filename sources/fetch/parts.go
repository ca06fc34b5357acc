package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/larder-cli/larder/sources"
)

// proceed downloads what follows the beginning of an archive, which the answer has brought. Few large archives of a
// host arrive at the same time, with all of its connections, so that the first ones are complete, and can be unpacked,
// while others wait.
func (d *download) proceed(try *attempt, a *answer) error {
	host := d.client.host(a.at)
	if rate := d.slow(try, a); d.isLarge(a) && !host.recent() { // others don't wait for a single connection
		host.takeTurn(try)
		if rate > 0 && d.hasRoom(a) {
			if all, err := d.inParts(try.ctx, a, rate); all || err != nil {
				return err
			}
			try.endTurn()
		}
	}
	a, err := d.ask(try)
	if err == nil {
		err = d.receive(try, a)
	}
	return err
}

// takeTurn waits until few other large archives of the host are arriving, but not for so long that the address of the
// archive becomes invalid. While it waits, others use the slot of the attempt.
func (h *host) takeTurn(try *attempt) {
	try.release()
	ctx, cancel := context.WithTimeout(try.ctx, maxTurn)
	defer cancel()
	if h.turns.Acquire(ctx, 1) == nil {
		try.turn = h.turns
	}
	if h.slots.Acquire(try.ctx, 1) == nil {
		try.slot = h.slots
	}
}

// isLarge reports whether so much of an archive is left that several connections may be worth it, if the server permits
// requests for parts.
func (d *download) isLarge(a *answer) bool {
	ranges := a.resp.StatusCode == http.StatusPartialContent || a.resp.Header.Get("Accept-Ranges") == "bytes"
	return !d.alone && ranges && d.validator != "" && d.total-d.have > 2*maxPart
}

// slow returns the speed of the connection in bytes a second if Larder waits for the server, rather than for the disk
// or for a processor, so that more connections are worth it. Otherwise it returns 0.
func (d *download) slow(try *attempt, a *answer) float64 {
	took := time.Since(try.began)
	if took < trial || !d.isLarge(a) {
		return 0
	}
	starved := try.waited > took/2
	if try.socket != nil {
		starved = try.socket.starved()
	}
	rate := float64(d.have-try.had) / took.Seconds()
	if !starved || float64(d.total-d.have) <= rate*minRest.Seconds() {
		return 0
	}
	return rate
}

// hasRoom reports whether other archives leave enough connections.
func (d *download) hasRoom(a *answer) bool {
	host := d.client.host(a.at)
	if host.recent() || !host.slots.TryAcquire(leastFree) {
		return false
	}
	host.slots.Release(leastFree)
	return true
}

// A parts downloads the rest of an archive over several connections at once. Parts arrive in any order, so they go
// through the spool, which has room for a few of them.
type parts struct {
	*download
	first  *answer // over the first connection
	spool  sources.Spool
	begin  int64         // offset of part 0 in the archive
	size   int64         // of a part, in bytes
	within time.Duration // for a request; a slower connection is replaced by another one
}

// inParts continues a download over several connections, and reports whether they brought all of it. The answer has
// brought the archive so far at this rate in bytes a second, more slowly than several connections may. Unless the host
// has sent parts before, it waits until another connection has brought some bytes: the server may not permit that.
func (d *download) inParts(ctx context.Context, a *answer, rate float64) (all bool, err error) {
	d.alone = true // if this fails, whatever the reason, a single connection needs less of the server
	most := min(int64(rate*partTime.Seconds()), (d.total-d.have)/maxConnections+1)
	size := min(max(most, minPart), maxPart)
	spool, err := d.stage.Spool(maxConnections * size)
	if err != nil {
		return false, nil // one connection needs none
	}
	defer spool.Close()
	host, p := d.client.host(a.at), &parts{download: d, first: a, spool: spool, size: size, within: maxLatency}
	if !host.parts.Load() {
		var probe bytes.Buffer
		try := d.client.attempt(ctx, d.url)
		defer try.stop()
		if _, err := p.request(try, &probe, d.have, d.have+bufferSize); err != nil {
			return false, ctx.Err()
		}
		if _, err := d.Write(probe.Bytes()); err != nil {
			return false, err
		}
	}
	a.resp.Body.Close()
	p.begin = d.have
	p.within = max(minPartTime, time.Duration(2*maxConnections*float64(p.size)/rate*float64(time.Second)))
	err = p.join(ctx)
	host.parts.Store(err == nil)
	return true, err
}

// join downloads the parts, and copies them from the spool to the stage in order. One part has the slot of the first
// connection, and the others have those that no other archive needs.
func (p *parts) join(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	host, own := p.client.host(p.first.at), semaphore.NewWeighted(1)
	var begun []chan error // for each part, its result
	for part := 0; p.have < p.total; part++ {
		for next := len(begun); next < part+maxConnections && p.begin+int64(next)*p.size < p.total; next++ {
			slots := own
			if !own.TryAcquire(1) {
				if slots = host.slots; host.recent() || !slots.TryAcquire(1) {
					break
				}
			}
			done := make(chan error, 1)
			begun = append(begun, done)
			group.Go(func() {
				err := p.fetch(ctx, next)
				slots.Release(1)
				done <- err
			})
		}
		if err := <-begun[part]; err != nil {
			return err
		}
		begin, end, at := p.span(part)
		_, err := io.CopyBuffer(p, io.NewSectionReader(p.spool, at, end-begin), p.buf)
		if err != nil || p.have < end {
			return fmt.Errorf("reading the downloaded part: %w", cmp.Or(err, io.ErrUnexpectedEOF))
		}
	}
	return nil
}

// span returns the range of a part in the archive, and its offset in the spool.
func (p *parts) span(part int) (begin, end, at int64) {
	begin = p.begin + int64(part)*p.size
	return begin, min(begin+p.size, p.total), int64(part%maxConnections) * p.size
}

// fetch downloads a part to the spool. Whatever fails, a single connection may not need it.
func (p *parts) fetch(ctx context.Context, part int) error {
	begin, end, at := p.span(part)
	err := p.client.retry(ctx, p.url, tries{most: min(p.most, partTries)}, func(try *attempt) (bool, error) {
		n, err := p.request(try, io.NewOffsetWriter(p.spool, at), begin, end)
		begin, at = begin+n, at+n
		return n >= bufferSize, err
	})
	if err != nil {
		err = broken{fmt.Errorf("in parts: %w", errors.Unwrap(err))}
	}
	return err
}

// request sends one request for a range of the archive, and returns how many bytes it wrote.
func (p *parts) request(try *attempt, to io.Writer, begin, end int64) (n int64, err error) {
	try.budget = p.within
	a, err := p.get(try, p.first.at, p.first.header, fmt.Sprintf("bytes=%d-%d", begin, end-1))
	if err != nil {
		return 0, err
	}
	defer a.resp.Body.Close()
	length, _, err := p.checkRange(a, begin, end)
	if err != nil {
		return 0, err
	}
	n, err = io.CopyN(to, a.resp.Body, length)
	if isEnd(err) || err == nil && begin+n < end { // servers may send less than the range
		err = broken{fmt.Errorf("cut %d bytes before the end of a part", end-begin-n)}
	}
	return n, err
}
