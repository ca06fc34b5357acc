package cachedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/larder-cli/larder/sources"
)

// A Holder is who holds the lock of a package, or of the cache as a whole.
type Holder struct {
	ID    sources.PackageID `json:"-"`   // zero if it is the cache's
	PID   int               `json:"pid"` // 0 if it is not known who, as it is of OpenTofu
	Host  string            `json:"host"`
	Since time.Time         `json:"since"`
}

// ErrLockTimeout matches the error of a wait for a lock that took too long.
var ErrLockTimeout = errors.New("timed out waiting for a lock")

const (
	lockPoll  = 20 * time.Millisecond
	lockSoon  = 2 * time.Second // a wait up to here is not worth a word
	maxHolder = 4 << 10
)

// held has a mutex for each lock file this process has used. On network file
// systems a lock may belong to the process rather than to the open file, and so
// not exclude its own goroutines.
var held sync.Map // of path to *sync.Mutex

// lock waits for the lock of the package and returns the function to free it.
func (d *Dir) lock(ctx context.Context, id sources.PackageID) (unlock func(), err error) {
	return d.lockAt(ctx, id, id.Path())
}

// lockAt waits for the lock at path, which has to do with the package id.
func (d *Dir) lockAt(ctx context.Context, id sources.PackageID, path string) (unlock func(), err error) {
	l := d.newLock(path)
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return nil, err
	}
	if err := d.wait(ctx, l.try, func() Holder { return readHolder(l.holderPath(), id) }); err != nil {
		return nil, err
	}
	announce(l.holderPath(), d.opts.Now())
	return l.free, nil
}

// wait calls try until it succeeds.
func (d *Dir) wait(ctx context.Context, try func() (bool, error), holder func() Holder) error {
	if d.opts.LockTimeout > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, d.opts.LockTimeout, ErrLockTimeout)
		defer cancel()
	}
	begun, told := time.Now(), false
	for {
		ok, err := try()
		if ok || err != nil {
			return err
		}
		if !told && d.opts.Waiting != nil && time.Since(begun) >= lockSoon {
			told = true
			d.opts.Waiting(holder())
		}
		select {
		case <-ctx.Done():
			return timedOut(ctx, holder())
		case <-time.After(lockPoll):
		}
	}
}

func timedOut(ctx context.Context, h Holder) error {
	err := context.Cause(ctx)
	if !errors.Is(err, ErrLockTimeout) || h.PID == 0 {
		return err
	}
	return fmt.Errorf("%w, held by process %d on %s since %s", err, h.PID, h.Host, h.Since.Format(time.RFC3339))
}

// A fileLock is a lock that excludes other processes and other goroutines. It
// is made anew for each use, as a flock.Flock that holds its lock would let
// anyone lock it again.
type fileLock struct {
	path     string
	file     *flock.Flock
	mutex    *sync.Mutex
	lockless func(error) // told that the file system has no locks
}

func (d *Dir) newLock(path string) *fileLock {
	path = d.lockPath(path)
	mutex, _ := held.LoadOrStore(path, new(sync.Mutex))
	// Others may lock what we made, so they must be able to read it.
	file := flock.New(path, flock.SetPermissions(0o644), flock.SetFlag(os.O_CREATE|os.O_RDONLY|syscall.O_NONBLOCK))
	return &fileLock{path, file, mutex.(*sync.Mutex), d.warnLockless}
}

// try takes the lock if it is free. A file system without locks does not keep
// anyone from working: then only this process is excluded.
func (l *fileLock) try() (bool, error) {
	if !l.mutex.TryLock() {
		return false, nil
	}
	ok, err := l.file.TryLock()
	if lockless(err) {
		l.lockless(err)
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("locking %s: %w", l.path, err)
	}
	if !ok {
		l.mutex.Unlock()
	}
	return ok, err
}

func (l *fileLock) free() {
	withdraw(l.holderPath())
	l.file.Unlock()
	l.mutex.Unlock()
}

func (d *Dir) warnLockless(err error) {
	d.lockless.Do(func() {
		d.warn(fmt.Errorf("%s cannot be locked, so other processes may get in the way: %w", d.root, err))
	})
}

// lockless reports whether err means that the file system has no locks.
func lockless(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
}

func (l *fileLock) holderPath() string { return strings.TrimSuffix(l.path, ".lock") + ".holder" }

// announce says at path who holds a lock, for those who wait to tell their
// users. If that cannot be said, nobody is the worse for it.
func announce(path string, now time.Time) {
	host, _ := os.Hostname()
	data, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: now})
	if err == nil {
		_ = os.Remove(path) // whatever it is: writing to a pipe might never end
		_ = os.WriteFile(path, data, 0o644)
	}
}

// withdraw ends what announce has said.
func withdraw(path string) { _ = os.Remove(path) }

// readHolder is who has announced at path to hold the lock that has to do with
// the package id.
func readHolder(path string, id sources.PackageID) Holder {
	unknown := Holder{ID: id}
	f, err := openAtOnce(path)
	if err != nil {
		return unknown
	}
	defer f.Close()
	h := unknown
	if err := json.NewDecoder(io.LimitReader(f, maxHolder)).Decode(&h); err != nil {
		return unknown
	}
	return h
}
