package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/staging"
)

// lock waits for the lock of the package and returns the function that releases it. The file of the lock is removed
// then, so that a cache has no file for each package. The lock is held until the package's record is written: processes
// that wait for it need that.
func (d *Dir) lock(ctx context.Context, id sources.PackageID) (unlock func(), err error) {
	release, err := d.lockAt(ctx, id, lockPath(id), true)
	if err != nil {
		return nil, err
	}
	return func() { d.ledger.Then(func() { d.known.Then(release) }) }, nil
}

// lockPath returns the path of the lock of a package in the state.
func lockPath(id sources.PackageID) string { return "lock/" + staging.Key(id) + ".lock" }

// lockEvidence locks the evidence for all versions. The lock is held only briefly.
func (d *Dir) lockEvidence(ctx context.Context, id sources.PackageID) (unlock func(), err error) {
	return d.lockAt(ctx, id, "lock/evidence.lock", false)
}

// lockAt waits for the lock at a path in the state, on behalf of the package id. Without a state
// there are no locks, and it does nothing.
func (d *Dir) lockAt(ctx context.Context, id sources.PackageID, at string, fleeting bool) (unlock func(), err error) {
	if d.state == nil {
		return func() {}, nil
	}
	locks, err := d.state.MakeSub(path.Dir(at))
	if err != nil {
		return nil, err
	}
	l := locks.Lock(path.Base(at))
	l.Optional, l.Fleeting = d.shared, fleeting
	try := func() (bool, error) { return d.tolerate(l, (*disk.Lock).Try) }
	if err := d.wait(ctx, try, func() Holder { return Holder{ID: id, Holder: l.Holder()} }); err != nil {
		locks.Close()
		return nil, err
	}
	l.Announce(d.opts.Now())
	return func() { l.Unlock(); locks.Close() }, nil
}

// lockTofu waits for the lock that OpenTofu holds while it checks, fetches and
// unpacks the package id, and returns the function that releases it. home contains
// the entry. The caller holds the package's own lock. Like OpenTofu, lockTofu creates
// a missing lock file and leaves it in place.
func (d *Dir) lockTofu(ctx context.Context, home *disk.Dir, id sources.PackageID) (unlock func(), err error) {
	name := tofuLockName(id.Platform)
	f, err := home.OpenLock(name)
	if err != nil {
		return nil, err
	}
	try := func() (bool, error) { return disk.TryWhole(f) }
	holder := func() Holder {
		return Holder{ID: id, Holder: disk.Holder{PID: disk.WholePID(f)}, Tofu: home.Path(name)}
	}
	if err := d.wait(ctx, try, holder); err != nil {
		f.Close()
		return nil, fmt.Errorf("waiting for OpenTofu's lock %s: %w", home.Path(name), err)
	}
	return func() { f.Close() }, nil
}

// tofuLockName returns the name of OpenTofu's lock file for a package, beside the
// entry.
func tofuLockName(p sources.Platform) string { return p.String() + ".lock" }

// hold opens the directory that contains the entry for id, which is about to be removed, and takes OpenTofu's lock
// for it, if the lock file exists and is free. The file stays, because another process may be waiting for it: if it
// were removed, that process and the next one would hold different locks.
func (d *Dir) hold(id sources.PackageID) (_ *disk.Dir, release func(), _ error) {
	home, err := d.tree.Sub(path.Dir(id.Path()))
	if err != nil {
		return nil, nil, err
	}
	name := tofuLockName(id.Platform)
	if _, err := home.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return home, func() { home.Close() }, nil
	}
	f, err := home.OpenLock(name)
	if err != nil {
		home.Close()
		return nil, nil, err
	}
	release = func() { f.Close(); home.Close() }
	ok, err := disk.TryWhole(f)
	if ok {
		return home, release, nil
	}
	if err == nil {
		err = fmt.Errorf("locked by OpenTofu: %s", home.Path(name))
		if pid := disk.WholePID(f); pid != 0 {
			err = fmt.Errorf("locked by OpenTofu (pid %d): %s", pid, home.Path(name))
		}
		err = sources.WithHint(err, "run the command again when OpenTofu has finished")
	}
	release()
	return nil, nil, err
}

// A presence is this process's use of a whole cache: either any number of goroutines
// use packages, or one goroutine removes packages. It holds a lock on the file
// cache.lock, shared or exclusive. A process that requests this lock passes gate.lock
// first. A process that waits to remove packages holds gate.lock, because otherwise
// it might wait forever while others use the cache.
type presence struct {
	mu    sync.Mutex
	users int // those that use packages; -1 while one removes packages
	lock  *disk.Lock
}

var presences sync.Map // from path of the directory with the locks to *presence

func (d *Dir) presence() *presence {
	p, _ := presences.LoadOrStore(d.state.Path("."), new(presence))
	return p.(*presence)
}

// The names of the locks of the whole cache.
const gateLock, wholeLock = "gate.lock", "cache.lock"

func (d *Dir) wholeLock(name string) *disk.Lock {
	l := d.state.Lock(name)
	l.Existing, l.Optional = d.readOnly != nil, d.shared
	return l
}

// Use keeps every package in place until release is called. It waits while packages
// are being removed. A caller of [Dir.Get] and [sources.Workdir].Link calls Use before the
// first and release after the second.
func (d *Dir) Use(ctx context.Context) (release func(), err error) {
	if under := d.opts.Under; under != nil {
		return under.Use(ctx)
	}
	if d.state == nil {
		return func() {}, nil
	}
	p := d.presence()
	try := func() (bool, error) { return p.take(d, false) }
	if err := d.wait(ctx, try, func() Holder { return Holder{Holder: d.wholeLock(gateLock).Holder()} }); err != nil {
		return nil, fmt.Errorf("using the plugin cache: %w", err)
	}
	return sync.OnceFunc(p.leave), nil
}

// take adds a user of packages or, alone, the one that removes packages and has passed the gate.
func (p *presence) take(d *Dir, alone bool) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lock, try, change := d.wholeLock(wholeLock), (*disk.Lock).TryShared, 1
	switch {
	case p.users < 0, alone && p.users > 0:
		return false, nil
	case p.users > 0:
		p.users++
		return true, nil
	case alone:
		try, change = (*disk.Lock).Try, -1
	default:
		gate := d.wholeLock(gateLock)
		if ok, err := d.tolerate(gate, try); !ok {
			return false, err
		}
		defer gate.Unlock()
	}
	if ok, err := d.tolerate(lock, try); !ok {
		return false, err
	}
	if alone && d.denies(lock.Lockless) { // other users may hold it
		lock.Unlock()
		return false, lock.Lockless
	}
	p.lock, p.users = lock, change
	return true, nil
}

func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users = max(p.users-1, 0); p.users == 0 {
		p.lock.Unlock()
	}
}

// tolerate takes a lock. If the file system has no locks, or this user may not create
// lock files, it reports success: no other larder process can then remove packages
// either. A link in place of the lock file is still an error.
func (d *Dir) tolerate(l *disk.Lock, try func(*disk.Lock) (bool, error)) (bool, error) {
	ok, err := try(l)
	if l.Lockless != nil {
		d.lockless.Do(func() {
			d.warn(fmt.Errorf("%s cannot be locked, so other processes may interfere: %w", d.root, d.explainOwner(l.Lockless)))
		})
	}
	if d.readOnly != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
		return true, nil
	}
	return ok, err
}

// clean waits until no package is in use, and prevents use until release is called.
func (d *Dir) clean(ctx context.Context) (release func(), err error) {
	d.completeRegistry() // which uses the cache
	p, gate, closed := d.presence(), d.wholeLock(gateLock), false
	try := func() (ok bool, err error) {
		if !closed {
			if closed, err = d.tolerate(gate, (*disk.Lock).Try); !closed {
				return false, err
			}
			gate.Announce(d.opts.Now())
		}
		return p.take(d, true)
	}
	if err := d.wait(ctx, try, func() Holder { return Holder{} }); err != nil {
		gate.Unlock()
		return nil, fmt.Errorf("waiting until nothing is installed from the plugin cache: %w", err)
	}
	return sync.OnceFunc(func() { p.leave(); gate.Unlock() }), nil
}
