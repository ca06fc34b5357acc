package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// An Arrival is an archive that is being fetched into the mirror, for all clients that wait for it.
type Arrival struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced by each change
	users    int           // the fetch, and the clients
	file     *os.File      // of the stage, readable even when the mirror removes it; nil before it has bytes
	done     int64         // bytes in it
	size     int64         // of the archive; 0 if unknown
	ended    bool
	err      error
	restarts int
}

// heldBack is how many bytes at the end of an archive clients get only after all of it was verified. Without them,
// no program can use the archive.
const heldBack = 64 << 10

var errRestarted = errors.New("the download began again")

func newArrival() *Arrival { return &Arrival{changed: make(chan struct{}), users: 1} }

// enter adds a client, which must leave.
func (a *Arrival) enter() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.users++
}

// leave closes the file after the last user has left.
func (a *Arrival) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.users--; a.users == 0 && a.file != nil {
		_ = a.file.Close() // it was only read
	}
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
func (a *Arrival) Observe(now sources.Arriving) (err error) {
	a.change(func() {
		if a.file != nil && now.Done == 0 { // its readers fail
			_ = a.file.Close()
			a.file = nil
			a.restarts++
		}
		if a.file == nil && now.Done > 0 {
			a.file, _, err = disk.OpenFile(now.Path)
		}
		a.done, a.size = now.Done, now.Size
	})
	return err
}

// end says that the archive is in the mirror, or why it isn't.
func (a *Arrival) end(err error) {
	a.change(func() {
		if a.ended, a.err = true, err; err == nil {
			a.size = a.done
		}
	})
	a.leave()
}

// await returns once ready returns true. It calls it with the lock, now and after each change.
func (a *Arrival) await(ctx context.Context, ready func() bool) error {
	for {
		a.mu.Lock()
		done, changed := ready(), a.changed
		a.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wait returns once the archive is in the mirror, or can't be.
func (a *Arrival) wait(ctx context.Context) error {
	var failed error
	err := a.await(ctx, func() bool {
		failed = a.err
		return a.ended
	})
	return cmp.Or(err, failed)
}

// A reader reads an archive while it arrives.
type reader struct {
	ctx        context.Context
	of         *Arrival
	file       *os.File
	generation int // of the file
	at         int64
	first      []byte // bytes that were read already
}

// firstRead is how many bytes a reader has, at most, when the answer begins.
const firstRead = 32 << 10

// reader returns a reader once there are bytes for it. It has the first ones: a download that begins again before a
// client has any changes nothing for that client. Size is that of the archive, or 0 if it is unknown. If the
// archive was on this machine already, the reader is nil: it is in the mirror then.
func (a *Arrival) reader(ctx context.Context) (r *reader, size int64, err error) {
	for first := make([]byte, firstRead); ; {
		if r, size, err = a.open(ctx); err != nil || r == nil {
			return nil, 0, err
		}
		n, err := r.Read(first)
		switch r.first = first[:n]; {
		case err == nil, errors.Is(err, io.EOF):
			return r, size, nil
		case !errors.Is(err, errRestarted):
			return nil, 0, err
		}
	}
}

// open returns a reader of the bytes that there are, once there are any.
func (a *Arrival) open(ctx context.Context) (r *reader, size int64, err error) {
	var failed error
	err = a.await(ctx, func() bool {
		if failed = a.err; failed == nil && a.file != nil && (a.ended || a.done > heldBack) {
			r, size = &reader{ctx: ctx, of: a, file: a.file, generation: a.restarts}, a.size
		}
		return a.ended || r != nil
	})
	return r, size, cmp.Or(err, failed)
}

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	if len(r.first) > 0 {
		n := copy(p, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	var until int64
	var end error // after these bytes
	err := r.of.await(r.ctx, func() bool {
		until, end = r.of.state(r.generation)
		return r.at < until || end != nil
	})
	if err == nil && r.at >= until {
		err = end
	}
	if err != nil {
		return 0, err
	}
	n, err := r.file.ReadAt(p[:min(int64(len(p)), until-r.at)], r.at)
	r.at += int64(n)
	switch {
	case n > 0:
		err = nil
	case errors.Is(err, os.ErrClosed):
		err = errRestarted
	case errors.Is(err, io.EOF): // another program has shortened the file
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// state returns how many bytes may be read, and the error after these: [io.EOF] at the end of the archive, or nil if
// more may arrive. The caller holds the lock.
func (a *Arrival) state(generation int) (until int64, end error) {
	switch {
	case a.restarts != generation:
		return 0, errRestarted
	case !a.ended:
		return a.done - heldBack, nil
	case a.err != nil:
		return 0, a.err
	}
	return a.done, io.EOF
}
