package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// An Arrival is an archive that is being fetched into the mirror, for all clients that wait for it.
type Arrival struct {
	Request int64 // number of the request that began it

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced by each change
	now      sources.Arriving
	from     string // see Begin
	ended    bool
	proved   sources.Report // once it has ended
	err      error
	restarts int
}

// heldBack is how many bytes at the end of an archive clients get only after all of it was verified. Without them,
// no program can use the archive.
const heldBack = 64 << 10

var errRestarted = errors.New("the download began again")

func newArrival(request int64) *Arrival {
	return &Arrival{Request: request, changed: make(chan struct{})}
}

// change changes the arrival and wakes those who wait.
func (a *Arrival) change(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
	close(a.changed)
	a.changed = make(chan struct{})
}

// Observe is a [sources.Observer] of the transaction that fetches the archive.
func (a *Arrival) Observe(now sources.Arriving) error {
	a.change(func() {
		if a.now.Done > 0 && now.Done == 0 {
			a.restarts++ // its readers fail
		}
		a.now = now
	})
	return nil
}

// Begin notes the source from which the archive is fetched.
func (a *Arrival) Begin(source string) {
	a.change(func() { a.from = source })
}

func (a *Arrival) source() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.from
}

// end says that the archive is in the mirror, with what is proved about it, or why it isn't.
func (a *Arrival) end(proved sources.Report, err error) {
	a.change(func() { a.ended, a.proved, a.err = true, proved, err })
}

// await returns once ready returns true, or an error. It calls it with the lock, now and after each change.
func (a *Arrival) await(ctx context.Context, ready func() (bool, error)) error {
	for {
		a.mu.Lock()
		done, err := ready()
		changed := a.changed
		a.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reader returns a reader once there are bytes for it, and the size of the archive. The reader is nil once the archive
// is in the mirror: for a client that wants only a part, for an archive of unknown size, as no disk space is reserved
// for it, and if it was there before the client could get a part.
func (a *Arrival) reader(ctx context.Context, part bool) (r *reader, size int64, err error) {
	err = a.await(ctx, func() (bool, error) {
		if a.ended || a.now.Done <= heldBack || part || a.now.Size == 0 {
			return a.ended, a.err
		}
		f, _, err := disk.OpenFile(a.now.Path) // readable even when the mirror moves it
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // which it has just done
		}
		if err == nil {
			r, size = &reader{ctx: ctx, of: a, file: f, generation: a.restarts}, a.now.Size
		}
		return true, err
	})
	return r, size, err
}

// A reader reads an archive while it arrives.
type reader struct {
	ctx        context.Context
	of         *Arrival
	file       *os.File // of the stage
	generation int      // of the file
	at         int64
}

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	var until int64 // bytes that may be read
	err := r.of.await(r.ctx, func() (bool, error) {
		a := r.of
		switch until = a.now.Done - heldBack; {
		case a.err != nil && !errors.Is(a.err, ErrUnindexed):
			return false, a.err
		case a.restarts != r.generation:
			return false, errRestarted
		case a.ended:
			until = a.now.Done
		}
		return a.ended || r.at < until, nil
	})
	switch {
	case err != nil:
		return 0, err
	case r.at >= until:
		return 0, io.EOF
	}
	n, err := r.file.ReadAt(p[:min(int64(len(p)), until-r.at)], r.at)
	r.at += int64(n)
	switch {
	case n > 0:
		err = nil
	case errors.Is(err, io.EOF): // another program has shortened the file
		err = &fs.PathError{Op: "read", Path: r.file.Name(), Err: io.ErrUnexpectedEOF}
	}
	return n, err
}

// Close closes the file.
func (r *reader) Close() error { return r.file.Close() }
