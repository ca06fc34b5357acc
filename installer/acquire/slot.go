package acquire

import "context"

// Slots limit the number of packages that are fetched, unpacked, hashed or linked
// concurrently, in all Acquirers that share them. Most of them wait for servers: package archive
// limits how many are unpacked and hashed.
type Slots chan struct{}

// NewSlots returns n slots, or 48 if n is 0.
func NewSlots(n int) Slots {
	if n == 0 {
		n = 48
	}
	return make(Slots, n)
}

// A Slot is the slot of one package. The zero Slot is not taken.
type Slot struct{ of Slots }

// Enter takes the request's slot, unless it is already taken, and waits until one is
// free. Queries to sources require no slot: servers may be far away, and responses
// are small.
func (a *Acquirer) Enter(ctx context.Context, req Request) error {
	if err := a.opts.Judge.Options.Policy.Learn(ctx, req.ID.Provider, req.ID.Version); err != nil {
		return err
	}
	if a.enterNow(req) {
		return nil
	}
	a.Report(Event{Step: Queued, Package: req.ID})
	select {
	case a.opts.Slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	req.Slot.of = a.opts.Slots
	return nil
}

// enterNow takes the request's slot if one is free, and reports whether the request has all that it needs.
func (a *Acquirer) enterNow(req Request) bool {
	if req.Slot == nil || req.Slot.of != nil {
		return true
	}
	select {
	case a.opts.Slots <- struct{}{}:
		req.Slot.of = a.opts.Slots
		return true
	default:
		return false
	}
}

// Leave releases the slot, if it is taken.
func (s *Slot) Leave() {
	if s.of != nil {
		<-s.of
		s.of = nil
	}
}
