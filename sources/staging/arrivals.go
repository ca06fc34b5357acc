package staging

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Arrivals are the archives that this user's processes are downloading now, into any
// store. A process that requires one of them waits for its bytes. They are in one
// directory for each user:
//
//	CHECKSUM.lock    locked by the process that downloads; its time is that of the latest bytes
//	CHECKSUM.wanted  locked by the processes that wait
//	CHECKSUM         the archive, as soon as it is complete, if a process waits for it
//
// All of this only saves downloads. A process that finds no bytes in time downloads them
// itself, and hashes what it finds, so the files may be changed or removed at any time.
// The methods are safe for concurrent use. Nil Arrivals are always empty.
type Arrivals struct {
	path    string
	waiting func(sources.PackageID, disk.Holder)

	once     sync.Once
	dir      *disk.Dir // nil if it cannot be created
	archives *Archives
}

// ArrivalsIn returns the arrivals in the directory at path, which is created when it is
// first required. It calls waiting if a wait takes long.
func ArrivalsIn(path string, waiting func(sources.PackageID, disk.Holder)) *Arrivals {
	return &Arrivals{path: path, waiting: waiting}
}

// open opens the directory, and reports whether there is one.
func (a *Arrivals) open() bool {
	if a == nil {
		return false
	}
	a.once.Do(func() {
		dir, err := disk.Make(a.path)
		if err != nil {
			return
		}
		_ = Sweep(dir, time.Now(), nil) // of killed processes
		a.dir, a.archives = dir, ArchivesIn(dir, math.MaxInt64)
	})
	return a.dir != nil
}

// Close closes the directory.
func (a *Arrivals) Close() {
	if a != nil && a.dir != nil {
		a.dir.Close()
	}
}

// A turn is the part of one process in the arrival of one archive. A nil turn has none.
type turn struct {
	in     *Arrivals
	name   string
	lock   *disk.Lock // of the process that downloads, otherwise nil
	wanted *disk.Lock // of a process that waits or has waited, otherwise nil
	moved  time.Time  // when the lock file got its time
}

// silence is how long a process waits for one that receives no bytes. Tests change it.
var silence = 5 * time.Second

// await returns the archive with this hash if another process downloads it now. If not, or
// if no bytes arrive there any more, it returns an error, and this process is to download it.
// The caller must call leave.
func (a *Arrivals) await(ctx context.Context, id sources.PackageID, zh sources.Hash) (*turn, *disk.Hashed, error) {
	name, err := archiveName(zh)
	if err != nil || !a.open() {
		return nil, nil, fs.ErrNotExist
	}
	t := &turn{in: a, name: name}
	locked, err := t.tryLock()
	if err != nil {
		return nil, nil, err
	}
	if !locked {
		if err := t.wait(ctx, id); err != nil {
			t.leave()
			return nil, nil, err
		}
	}
	h, err := a.archives.Find(ctx, zh)
	switch {
	case err == nil:
		t.unlock() // others find it too
	case t.lock != nil:
		t.lock.Announce(time.Now())
		t.unwait()
	}
	return t, h, err
}

func (t *turn) tryLock() (bool, error) {
	lock := t.in.dir.Lock(t.name + ".lock")
	ok, err := lock.Try()
	if ok {
		t.lock = lock
		return true, nil
	}
	lock.Unlock()
	return false, err
}

func (t *turn) unlock() {
	if t.lock != nil {
		t.lock.Unlock()
		t.lock = nil
	}
}

// want announces that this process waits, unless another one is removing the file.
func (t *turn) want() error {
	wanted := t.in.dir.Lock(t.name + ".wanted")
	ok, err := wanted.TryShared()
	if ok && t.in.dir.Exists(t.name+".wanted") {
		t.wanted = wanted
		return nil
	}
	wanted.Unlock()
	return err
}

func (t *turn) unwait() {
	if t.wanted != nil {
		t.wanted.Unlock()
		t.wanted = nil
	}
}

// wait returns when the archive is there, when its lock was free and this process has it, or
// when no bytes arrive.
func (t *turn) wait(ctx context.Context, id sources.PackageID) error {
	var latest time.Time // of the bytes, by the clock of any machine
	since := time.Now()
	return disk.Wait(ctx, func() (bool, error) {
		if t.wanted == nil {
			if err := t.want(); err != nil {
				return false, err
			}
		}
		if t.in.dir.Exists(t.name) {
			return true, nil
		}
		if ok, err := t.tryLock(); ok || err != nil {
			return true, err
		}
		info, err := t.in.dir.Lstat(t.name + ".lock")
		if err == nil && !info.ModTime().Equal(latest) {
			latest, since = info.ModTime(), time.Now()
		}
		return time.Since(since) > silence, nil
	}, func() { t.in.waiting(id, t.in.dir.Lock(t.name+".lock").Holder()) })
}

// arrived notifies waiting processes, about once a second, that bytes have arrived.
func (t *turn) arrived() {
	if t == nil || t.lock == nil {
		return
	}
	if now := time.Now(); now.Sub(t.moved) > time.Second {
		_ = t.in.dir.Touch(t.name+".lock", now)
		t.moved = now
	}
}

// share copies the complete archive for waiting processes, if there are any.
func (t *turn) share(from *disk.Dir, name string) {
	if t != nil && t.lock != nil && t.others() && !t.in.dir.Exists(t.name) {
		_ = t.in.archives.copy(from, name, t.name)
	}
}

// others reports whether other processes wait. If there are none, it removes what they
// would use.
func (t *turn) others() bool {
	wanted := t.in.dir.Lock(t.name + ".wanted")
	wanted.Existing = true
	ok, err := wanted.Try()
	defer wanted.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if ok {
		_ = t.in.dir.Remove(t.name)
		_ = t.in.dir.Remove(t.name + ".wanted")
	}
	return !ok && err == nil
}

// leave ends the turn. A lock file that is removed no longer excludes processes that have
// opened it before. That costs a second download.
func (t *turn) leave() {
	if t == nil {
		return
	}
	t.unwait()
	t.others()
	if t.lock != nil {
		_ = t.in.dir.Remove(t.name + ".lock")
		t.unlock()
	}
}
