package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// A Lock is an advisory lock on a file of its own, among processes and among the
// Locks of this process. The file is created when first locked, and stays.
type Lock struct {
	Existing bool  // do not create the file: locking a missing one matches [fs.ErrNotExist]
	Lockless error // why the file system has no locks, if the lock was taken nevertheless: only this process respects it then

	dir   *Dir
	name  string
	file  *flock.Flock
	mutex *sync.Mutex // held while this process has the lock exclusively
}

// A Holder is the process that has a lock exclusively.
type Holder struct {
	PID   int       `json:"pid"` // 0 if unknown
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// exclusive has a mutex for each lock file this process has used. On network file
// systems a lock may belong to the process rather than to the open file, and so
// not exclude its own goroutines.
var exclusive sync.Map // of path to *sync.Mutex

// Lock is the lock on the file called name. It is made for one use.
func (d *Dir) Lock(name string) *Lock { return &Lock{dir: d, name: name} }

// Path is the path of the lock file.
func (l *Lock) Path() string { return l.dir.Path(l.name) }

// Try takes the lock alone if it is free.
func (l *Lock) Try() (bool, error) {
	mutex, _ := exclusive.LoadOrStore(l.Path(), new(sync.Mutex))
	if !mutex.(*sync.Mutex).TryLock() {
		return false, nil
	}
	l.mutex = mutex.(*sync.Mutex)
	ok, err := l.try((*flock.Flock).TryLock)
	if !ok {
		l.mutex.Unlock()
		l.mutex = nil
	}
	return ok, err
}

// TryShared takes the lock together with others if nobody has it alone.
func (l *Lock) TryShared() (bool, error) { return l.try((*flock.Flock).TryRLock) }

// try opens the lock file and locks it. Others may lock what this user made, so
// it must be enough to be able to read it.
func (l *Lock) try(how func(*flock.Flock) (bool, error)) (bool, error) {
	in, base, done, err := l.dir.parent(l.name)
	if err != nil {
		return false, err
	}
	defer done()
	info, err := in.root.Lstat(base)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return false, stray(in.Path(base), in.describe(base, info.Mode()))
	case err == nil:
	case l.Existing || !errors.Is(err, fs.ErrNotExist):
		return false, in.named(err)
	default:
		if err := in.touchLock(base); err != nil {
			return false, err
		}
	}
	flag := os.O_RDWR | openNow
	if info != nil && !writable(info) {
		flag = os.O_RDONLY | openNow
	}
	l.file = flock.New(in.Path(base), flock.SetFlag(flag|noFollow))
	ok, err := how(l.file)
	if (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) && flag&os.O_RDWR != 0 {
		l.file = flock.New(in.Path(base), flock.SetFlag(os.O_RDONLY|openNow|noFollow))
		ok, err = how(l.file)
	}
	if lockless(err) {
		l.Lockless = err
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("locking %s: %w", in.Path(base), err)
	}
	return ok, err
}

func (d *Dir) touchLock(name string) error {
	f, err := d.Create(name, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func writable(info fs.FileInfo) bool { return info.Mode().Perm()&0o222 != 0 }

// Unlock releases the lock, if it is held.
func (l *Lock) Unlock() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	if l.mutex != nil {
		l.mutex.Unlock()
		l.mutex = nil
	}
}

// The holder of a lock says so in the lock file, behind the first byte, which
// Windows lets nobody read while it is locked. It is there for those who wait,
// and means nothing once the lock is free.
const holderAt, maxHolder = 1, 4 << 10

// Announce writes down that this process holds the lock. Failing to do so only
// makes messages say less.
func (l *Lock) Announce(now time.Time) {
	host, _ := os.Hostname()
	text, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: now})
	if err != nil {
		return
	}
	f, err := l.dir.EditFile(l.name)
	if err != nil {
		return
	}
	defer f.Close()
	if n, err := f.WriteAt(append(text, '\n'), holderAt); err == nil {
		_ = f.Truncate(int64(holderAt + n))
	}
}

// Holder is the process that announced itself last.
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

// lockless reports whether err means that the file system has no locks.
func lockless(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
}

const (
	poll = 20 * time.Millisecond
	soon = 2 * time.Second // a shorter wait is not worth a message
)

// ErrLockTimeout matches the error of a wait for a lock that took too long.
var ErrLockTimeout = errors.New("timed out waiting for a lock")

// WithTimeout limits waits for locks with the context; 0 is no limit.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, ErrLockTimeout)
}

// Wait calls try every few milliseconds until it succeeds or fails, or ctx is
// done. Late is called once if that takes a while; it may be nil.
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
