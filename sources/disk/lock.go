package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// A Lock is an advisory lock on a separate file. It excludes other processes
// and other Locks in this process. Locking creates the file, which then stays, unless the lock is fleeting.
type Lock struct {
	Fleeting bool  // remove the file before the lock is released, except on Windows
	Existing bool  // do not create the file; if it is missing, the error matches [fs.ErrNotExist]
	Optional bool  // do without the lock if its file is obstructed, see [IsObstructed]
	Lockless error // why it excludes only this process: the file system has no locks, or an optional one is obstructed

	dir   *Dir
	name  string
	file  *os.File // open while the lock is held
	alone bool     // this process holds the lock exclusively
	noted bool     // this process must not stay in the file, because other users lock it too
}

// A Holder describes the process that holds a lock exclusively.
type Holder struct {
	PID   int       `json:"pid"` // 0 if unknown
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// Explain adds the process to the error of a wait for its lock, if that timed out.
func (h Holder) Explain(err error) error {
	switch {
	case !errors.Is(err, ErrLockTimeout), h.PID == 0:
		return err
	case h.Host == "":
		return fmt.Errorf("%w, held by process %d", err, h.PID)
	}
	return fmt.Errorf("%w, held by process %d on %s since %s", err, h.PID, h.Host, h.Since.Format(time.RFC3339))
}

// exclusive has the paths of the lock files that this process holds exclusively. On
// network file systems, a lock may belong to the process and not to the open
// file, so it would not exclude other goroutines of the process.
var exclusive sync.Map

// Lock returns the lock on the file called name. A Lock must not be reused.
func (d *Dir) Lock(name string) *Lock { return &Lock{dir: d, name: name} }

// Idle reports whether no process holds the lock.
func (d *Dir) Idle(name string) bool {
	lock := d.Lock(name)
	lock.Existing = true
	ok, err := lock.Try()
	lock.Unlock()
	return ok || errors.Is(err, fs.ErrNotExist)
}

// Path returns the path of the lock file.
func (l *Lock) Path() string { return l.dir.Path(l.name) }

// Try takes the lock exclusively if it is free.
func (l *Lock) Try() (bool, error) {
	if _, held := exclusive.LoadOrStore(l.Path(), nil); held {
		return false, nil
	}
	ok, err := l.try(alone)
	if l.alone = ok; !ok {
		exclusive.Delete(l.Path())
	}
	return ok, err
}

// TryShared takes the lock in shared mode, unless it is held exclusively.
func (l *Lock) TryShared() (bool, error) { return l.try(shared) }

// try opens the lock file and locks it. Read access must suffice, because other
// users may lock files of this user.
func (l *Lock) try(how lockMode) (ok bool, err error) {
	flag := os.O_RDWR
	if !l.Existing {
		flag |= os.O_CREATE
	}
	f, err := l.dir.openLock(l.name, flag)
	if l.Optional && IsObstructed(err) {
		l.Lockless = err
		return true, nil
	}
	if err != nil {
		return false, err
	}
	ok, err = tryLock(f, how)
	if lockless(err) {
		l.Lockless, ok, err = err, true, nil
	}
	if ok && l.Fleeting && !l.isCurrent(f) {
		ok = false
	}
	if !ok {
		f.Close()
	} else {
		l.file = f
	}
	if err != nil {
		err = fmt.Errorf("locking %s: %w", l.Path(), err)
	}
	return ok, err
}

// isCurrent reports whether an open file is still the lock file: the process that held the lock before may have removed
// it, and others then lock a new one.
func (l *Lock) isCurrent(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := l.dir.Lstat(l.name)
	return err == nil && os.SameFile(opened, named)
}

// Unlock releases the lock, if it is held.
func (l *Lock) Unlock() {
	if l.file != nil {
		if l.noted {
			_ = l.file.Truncate(0)
		}
		if l.Fleeting && l.Lockless == nil && removesOpenFiles {
			_ = l.dir.Remove(l.name) // if it belongs to another user, it may stay
		}
		unlock(l.file)
		l.file, l.noted = nil, false
	}
	if l.alone {
		l.alone = false
		exclusive.Delete(l.Path())
	}
}

// The process that holds a lock records itself in the lock file. The record
// begins after the first byte, because on Windows other processes cannot read
// that byte while it is locked. Processes that wait for the lock show the
// record. It is meaningless once the lock is released.
const holderAt, maxHolder = 1, 4 << 10

// Announce records in the lock file that this process holds the lock. It
// ignores errors, which only make messages less detailed. One is that the file
// has another name or another owner: it can be locked, but is not written to.
func (l *Lock) Announce(now time.Time) {
	host, _ := os.Hostname()
	text, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: now})
	if err != nil || l.file == nil || !isSole(l.file) {
		return
	}
	if n, err := l.file.WriteAt(append(text, '\n'), holderAt); err == nil {
		_ = l.file.Truncate(int64(holderAt + n))
		l.noted = l.dir.share != nil // another user who holds the lock next can't change the file
	}
}

// Holder returns the process that last announced itself.
func (l *Lock) Holder() Holder {
	f, _, err := l.dir.OpenFile(l.name)
	if err != nil {
		return Holder{}
	}
	defer f.Close()
	text := make([]byte, maxHolder)
	n, _ := f.ReadAt(text, holderAt)
	var h Holder
	if json.Unmarshal(text[:n], &h) != nil {
		return Holder{}
	}
	return h
}

const (
	poll = 20 * time.Millisecond
	soon = 2 * time.Second // a shorter wait causes no message
)

// ErrLockTimeout matches the error of a wait for a lock that timed out.
var ErrLockTimeout = errors.New("timed out waiting for a lock")

// WithTimeout returns a context that limits waits for locks; 0 means no limit.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, ErrLockTimeout)
}

// Wait calls try every few milliseconds until it returns true or an error, or
// ctx is done. If the wait takes longer than two seconds, Wait calls late once;
// late may be nil.
func Wait(ctx context.Context, try func() (bool, error), late func()) error {
	begun := time.Now()
	for {
		ok, err := try()
		if ok || err != nil {
			return err
		}
		if late != nil && time.Since(begun) >= soon {
			late()
			late = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}
