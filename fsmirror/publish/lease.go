package publish

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A Slot is where a place keeps the lease of a provider.
type Slot interface {
	// Read returns the text of the lease, or "" if there is no readable one.
	Read(ctx context.Context) (text string, err error)

	// Write writes the lease in place of the one that was read or written last. The error matches [ErrTaken] if another
	// program has written it meanwhile.
	Write(ctx context.Context, text string) error
}

// ErrTaken matches the error of a lease that another program has taken.
var ErrTaken = errors.New("another program has taken the lease")

// leaseJSON is the text of a lease. Each renewal has another number, so that the text changes.
type leaseJSON struct {
	Holder string `json:"holder"`
	ID     string `json:"id"`
	Number int    `json:"number"`
}

const (
	abandonedAfter = time.Minute // without a renewal, the holder was killed
	renewals       = 4           // in this time, and more often in the beginning, see lookAgain
	firstLook      = 100 * time.Millisecond
	maxLook        = 2 * time.Second // between two looks of a waiting program
	maxHolder      = 200             // bytes, of the holder that is shown
	givingBack     = 2 * time.Second // otherwise the lease is left to be abandoned
)

// Hold takes the lease in a slot, calls f, and gives the lease back. A lease is the right to change a provider in a
// place. Its holder, for example "process 17 on build-3", renews it. Who waits for a lease measures its age, so the
// clocks of two machines need not agree. Wait is called once for each other holder. The context of f ends with
// [ErrTaken] if the lease is lost.
func Hold(ctx context.Context, in Slot, holder string, wait func(holder string), f func(context.Context) error) error {
	own := leaseJSON{Holder: cmp.Or(holder, "another program"), ID: rand.Text()}
	if err := own.take(ctx, in, wait); err != nil {
		return err
	}
	inner, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	done, renewed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(renewed)
		if err := own.renew(inner, done, in); err != nil {
			lose(err)
		}
	}()
	err := f(inner)
	close(done)
	<-renewed // without canceling it, because the request may already have changed the lease
	switch lost := context.Cause(inner); {
	case errors.Is(lost, ErrTaken) && errors.Is(err, inner.Err()): // which only says that
		return lost
	case errors.Is(lost, ErrTaken):
		return errors.Join(lost, err)
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingBack)
	defer cancel()
	_ = in.Write(back, "")
	return err
}

// take waits until the slot has no lease or an abandoned one, and writes its own. It fails if the place refuses to
// replace a text that no other program changes.
func (l leaseJSON) take(ctx context.Context, in Slot, wait func(holder string)) error {
	last, id, since := "", "", time.Now()
	for look := firstLook; ; look = min(2*look, maxLook) {
		text, err := in.Read(ctx)
		if err != nil {
			return err
		}
		is := parseLease(text)
		if text != last {
			last, since = text, time.Now()
		}
		if is.Holder != "" && is.ID != id {
			wait(is.Holder)
		}
		if id = is.ID; is.Holder == "" || time.Since(since) >= abandonedAfter {
			if err = in.Write(ctx, l.text()); !errors.Is(err, ErrTaken) {
				return err
			}
			if refused := 2 * abandonedAfter; time.Since(since) >= refused {
				return sources.WithHint(fmt.Errorf("%w, but its text hasn't changed for %s", err, refused),
					"check the conditional writes of the place, and the proxies and caches in front of it")
			}
		}
		if err := fetch.Sleep(ctx, look); err != nil {
			return err
		}
	}
}

// renew renews the lease until the work is done. It returns an error if the lease is lost.
func (l leaseJSON) renew(ctx context.Context, done <-chan struct{}, in Slot) error {
	for taken, renewed := time.Now(), time.Now(); ; {
		select {
		case <-time.After(lookAgain(time.Since(taken))):
		case <-done:
			return nil
		case <-ctx.Done():
			return nil
		}
		l.Number++
		began := time.Now()
		try, cancel := context.WithDeadline(ctx, renewed.Add(abandonedAfter*3/4)) // before another program takes the lease
		err := in.Write(try, l.text())
		cancel()
		switch {
		case err == nil:
			renewed = began
		case errors.Is(err, ErrTaken):
			return sources.WithHint(err, "push again: this push was interrupted, or both have taken the lease at the same time")
		case ctx.Err() == nil && time.Since(renewed) >= abandonedAfter*3/4:
			return fmt.Errorf("%w, or will: renewing it failed: %w", ErrTaken, err)
		}
	}
}

// lookAgain returns how long to wait until a lease that was taken some time ago is renewed. While it is new, a program
// that has read the slot before may still replace it, if the place can't write on a condition.
func lookAgain(taken time.Duration) time.Duration {
	return min(max(leastSettling, 2*taken), abandonedAfter/renewals)
}

func (l leaseJSON) text() string {
	text, _ := json.Marshal(l) // it consists of texts
	return string(text)
}

// parseLease returns a lease without a holder if the text is not a lease, so that no other object can stop all pushes.
func parseLease(text string) (l leaseJSON) {
	_ = json.Unmarshal([]byte(text), &l)
	l.Holder = fetch.Printable(l.Holder[:min(len(l.Holder), maxHolder)])
	return l
}
