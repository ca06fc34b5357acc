package cachedir

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"
	"github.com/larder-cli/larder/sources"
)

// A presence is what this process has to do with a cache as a whole: any number
// of its goroutines use packages, or one of them removes some. To the other
// processes it is a lock on the file cache.lock, shared or exclusive. Whoever
// wants it passes gate.lock first, which those who wait to remove packages keep
// closed: otherwise they might never find the cache unused.
type presence struct {
	mu       sync.Mutex
	users    int
	cleaning bool
	lock     *flock.Flock
}

var presences sync.Map // of path of the state to *presence

func (d *Dir) presence() *presence {
	p, _ := presences.LoadOrStore(d.opts.State, new(presence))
	return p.(*presence)
}

func (d *Dir) newWholeLock(name string) *flock.Flock {
	return flock.New(filepath.Join(d.opts.State, name+".lock"), flock.SetPermissions(0o644))
}

// cleanerPath is where the one who removes packages says who it is.
func (d *Dir) cleanerPath() string { return filepath.Join(d.opts.State, "cache.holder") }

// Use keeps every package in its place until release is called. It waits while
// packages are being removed. Whoever puts a package, or gets one to link it,
// holds on to it in this way from before the one until after the other.
func (d *Dir) Use(ctx context.Context) (release func(), err error) {
	p := d.presence()
	try := func() (bool, error) { return p.enter(d) }
	if err := d.wait(ctx, try, func() Holder { return readHolder(d.cleanerPath(), sources.PackageID{}) }); err != nil {
		return nil, fmt.Errorf("using the plugin cache: %w", err)
	}
	return sync.OnceFunc(p.leave), nil
}

func (p *presence) enter(d *Dir) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cleaning {
		return false, nil
	}
	if p.users == 0 {
		gate, lock := d.newWholeLock("gate"), d.newWholeLock("cache")
		if ok, err := d.tolerate(gate.TryRLock()); !ok {
			return false, err
		}
		defer gate.Unlock()
		if ok, err := d.tolerate(lock.TryRLock()); !ok {
			return false, err
		}
		p.lock = lock
	}
	p.users++
	return true, nil
}

func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		p.lock.Unlock()
	}
}

// tolerate makes the lack of locks no obstacle, and nor that of permission to
// make them: then nobody else of our kind can remove packages.
func (d *Dir) tolerate(ok bool, err error) (bool, error) {
	switch {
	case err == nil || d.readOnly != nil:
		return ok || err != nil, nil
	case lockless(err):
		d.warnLockless(err)
		return true, nil
	}
	return false, fmt.Errorf("locking %s: %w", d.root, err)
}

// clean waits until nobody uses packages, and keeps them from it until release
// is called.
func (d *Dir) clean(ctx context.Context) (release func(), err error) {
	p, gate, closed := d.presence(), d.newWholeLock("gate"), false
	try := func() (ok bool, err error) {
		if !closed {
			if closed, err = d.tolerate(gate.TryLock()); !closed {
				return false, err
			}
			announce(d.cleanerPath(), d.opts.Now())
		}
		return p.take(d)
	}
	open := func() {
		withdraw(d.cleanerPath())
		gate.Unlock()
	}
	if err := d.wait(ctx, try, func() Holder { return Holder{} }); err != nil {
		if closed {
			open()
		}
		return nil, fmt.Errorf("waiting until nothing is installed from the plugin cache: %w", err)
	}
	return sync.OnceFunc(func() { p.leaveClean(); open() }), nil
}

// take is enter for the one who removes packages.
func (p *presence) take(d *Dir) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users > 0 || p.cleaning {
		return false, nil
	}
	lock := d.newWholeLock("cache")
	if ok, err := d.tolerate(lock.TryLock()); !ok {
		return false, err
	}
	p.lock, p.cleaning = lock, true
	return true, nil
}

func (p *presence) leaveClean() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleaning = false
	p.lock.Unlock()
}
