package server

import (
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
	a.change(func() { a.ended, a.err = true, err })
	a.leave()
}

// wait returns once the archive is in the mirror, or can't be.
func (a *Arrival) wait(ctx context.Context) error {
	for {
		a.mu.Lock()
		ended, err, changed := a.ended, a.err, a.changed
		a.mu.Unlock()
		if ended {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A reader reads an archive while it arrives.
type reader struct {
	ctx        context.Context
	of         *Arrival
	file       *os.File
	generation int // of the file
	at         int64
}

// reader returns a reader once there are bytes for it. Size is that of the archive, or 0 if it is unknown. If the
// archive was on this machine already, the reader is nil: it is in the mirror then.
func (a *Arrival) reader(ctx context.Context) (r *reader, size int64, err error) {
	for {
		a.mu.Lock()
		changed := a.changed
		switch {
		case a.ended && (a.file == nil || a.err != nil):
			defer a.mu.Unlock()
			return nil, 0, a.err
		case a.ended, a.file != nil && a.done > heldBack:
			defer a.mu.Unlock()
			if a.ended {
				a.size = a.done
			}
			return &reader{ctx: ctx, of: a, file: a.file, generation: a.restarts}, a.size, nil
		}
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	for {
		until, changed, err := r.state()
		switch {
		case r.at < until:
			n, err := r.file.ReadAt(p[:min(int64(len(p)), until-r.at)], r.at)
			r.at += int64(n)
			switch {
			case n > 0:
				err = nil
			case err == io.EOF: //nolint:errorlint // as ReadAt returns it; another program has shortened the file
				err = io.ErrUnexpectedEOF
			}
			return n, err
		case err != nil:
			return 0, err
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}

// state returns how many bytes may be read, and the error after these: [io.EOF] at the end of the archive, or nil if
// more may arrive.
func (r *reader) state() (until int64, changed <-chan struct{}, err error) {
	a := r.of
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.restarts != r.generation:
		return 0, nil, errRestarted
	case !a.ended:
		return a.done - heldBack, a.changed, nil
	case a.err != nil:
		return 0, nil, a.err
	}
	return a.done, nil, io.EOF
}
