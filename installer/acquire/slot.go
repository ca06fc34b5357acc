package acquire

import "context"

// Slots bound how many packages are fetched, unpacked, hashed or linked at once,
// in all Acquirers that share them.
type Slots chan struct{}

// NewSlots makes n slots, or 16 if n is 0.
func NewSlots(n int) Slots {
	if n == 0 {
		n = 16
	}
	return make(Slots, n)
}

// A Slot is the place of one package among those in work, once it is taken. The zero
// Slot is not taken.
type Slot struct{ of Slots }

// Enter takes the request's slot, unless that was done before, and waits until there is
// one. Questions need none: servers may be far away, and answers are small.
func (a *Acquirer) Enter(ctx context.Context, req Request) error {
	if req.Slot == nil || req.Slot.of != nil {
		return nil
	}
	select {
	case a.opts.Slots <- struct{}{}:
	default:
		a.tell.event(Event{Step: Queued, Package: req.ID})
		select {
		case a.opts.Slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	req.Slot.of = a.opts.Slots
	return nil
}

// Leave gives the slot back, if it is taken.
func (s *Slot) Leave() {
	if s.of != nil {
		<-s.of
		s.of = nil
	}
}
