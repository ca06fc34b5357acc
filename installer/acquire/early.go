package acquire

import (
	"context"
	"slices"
	"time"

	"github.com/larder-cli/larder/sources"
)

// mostEarly is the size in bytes of the largest archive that is requested early, if the source states the size. Larger
// ones take many round trips anyway.
const mostEarly = 8 << 20

// An early is a transaction that begins while the source still fetches the evidence of the package, and requests the
// archive if the store needs it. What the server sends waits for the verdict: nothing of it is written before.
type early struct {
	sources.Tx
	offer  Offer              // without evidence
	cancel context.CancelFunc // stops all work on it
	ended  bool               // Close was called

	begun chan struct{} // closed when what follows is set
	held  sources.Held
	stage sources.Stage // of the requested archive; nil if none was requested
	to    *arriving     // writes to stage
	err   error

	judged chan struct{}    // see arriving
	seen   sources.Observer // set before judged is closed
}

// beginEarly begins the transaction of a located package. It does so only if nothing known so far refuses the package,
// even without evidence, and if a slot is free.
func (a *Acquirer) beginEarly(ctx context.Context, req Request, pkg sources.Package) *early {
	e := &early{offer: Offer{Package: pkg, asked: time.Now()}, begun: make(chan struct{}), judged: make(chan struct{})}
	if pkg.Size > mostEarly || a.judgeOffer(req, e.offer) != nil || !a.enterNow(req) {
		return nil
	}
	ctx, e.cancel = context.WithCancel(ctx)
	go func() {
		defer close(e.begun)
		e.held, e.Tx, e.err = a.into.Begin(ctx, req.ID, req.Purpose)
		if e.err == nil && a.lacks(req, e.held, pkg) {
			if e.stage, e.err = e.Tx.Stage(e.observe); e.err == nil {
				e.to = a.request(ctx, e.offer, e.stage, e.judged)
			}
		}
	}()
	return e
}

// lacks reports whether the store needs a located package, and no record of another archive refuses it.
func (a *Acquirer) lacks(req Request, held sources.Held, pkg sources.Package) bool {
	known, err := a.verified(req.ID, held.Known)
	same := known.ZH == "" || slices.Contains(pkg.Hashes, known.ZH)
	needed := held.Needed(req.Purpose)
	missing := !needed.Hashed() || req.Purpose == sources.ToHash && needed.H1 == ""
	return missing && err == nil && same
}

// of reports whether the transaction is one for the offer.
func (e *early) of(offer Offer) bool {
	return e != nil && !e.ended && e.offer.Location == offer.Location && slices.Equal(e.offer.Hashes, offer.Hashes)
}

// observe passes on what arrives after the verdict.
func (e *early) observe(now sources.Arriving) error {
	select {
	case <-e.judged:
		return e.seen(now)
	default:
		return nil
	}
}

// Stage implements [sources.Tx].
func (e *early) Stage(seen sources.Observer) (sources.Stage, error) {
	if e.to == nil {
		return e.Tx.Stage(seen)
	}
	e.seen = seen
	return requested{e.stage, e.to}, nil
}

// Close implements [sources.Tx]. It stops the download, and may be called again.
func (e *early) Close() {
	if e == nil || e.ended {
		return
	}
	e.ended = true
	e.cancel()
	<-e.begun
	if e.to != nil {
		<-e.to.done
		e.to.got.close()
	}
	if e.Tx != nil {
		e.Tx.Close()
	}
}

// A requested is a stage whose archive has been requested.
type requested struct {
	sources.Stage
	to *arriving
}
