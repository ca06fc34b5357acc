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

// slow returns the speed of the connection in bytes a second if more connections are possible and worth it, and
// otherwise 0. They are if Larder waits for the server rather than for the disk, much is left, and other archives leave
// enough connections. The connection has delivered the bytes after had since it began.
func (d *download) slow(began time.Time, had int64, try *attempt, a *answer) float64 {
	took := time.Since(began)
	if d.alone || took < trial {
		return 0
	}
	rate, rest := float64(d.have-had)/took.Seconds(), d.total-d.have
	ranges := a.resp.StatusCode == http.StatusPartialContent || a.resp.Header.Get("Accept-Ranges") == "bytes"
	worth := try.waited > took/2 && rest > 2*maxPart && float64(rest) > rate*minRest.Seconds()
	host := d.client.host(a.at)
	if !ranges || d.validator == "" || !worth || host.recent() || !host.slots.TryAcquire(leastFree) {
		return 0
	}
	host.slots.Release(leastFree)
	return rate
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

// inParts continues a download over several connections, and reports whether they brought all of it. The answer brings
// the rest of the archive at this rate in bytes a second, more slowly than several connections may. It waits until
// another connection has brought some bytes: the server may not permit that.
func (d *download) inParts(ctx context.Context, a *answer, rate float64) (all bool, err error) {
	d.alone = true // if this fails, whatever the reason, a single connection needs less of the server
	spool, err := d.stage.Spool()
	if err != nil {
		return false, nil // one connection needs none
	}
	defer spool.Close()
	p := &parts{download: d, first: a, spool: spool, within: maxLatency}
	var probe bytes.Buffer
	try := d.client.attempt(ctx, d.url)
	defer try.stop()
	if _, err := p.request(try, &probe, d.have, d.have+bufferSize); err != nil {
		return false, ctx.Err()
	}
	a.resp.Body.Close()
	if _, err := d.Write(probe.Bytes()); err != nil {
		return false, err
	}
	p.begin, p.size = d.have, min(max(int64(rate*partTime.Seconds()), minPart), maxPart)
	p.within = max(minPartTime, time.Duration(2*maxConnections*float64(p.size)/rate*float64(time.Second)))
	return true, p.join(ctx)
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
	if isEnd(err) {
		err = broken{fmt.Errorf("cut %d bytes before the end of a part", length-n)}
	}
	return n, err
}
