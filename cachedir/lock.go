package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// lock waits for the lock of the package and returns the function that releases it.
func (d *Dir) lock(ctx context.Context, id sources.PackageID) (unlock func(), err error) {
	return d.lockAt(ctx, id, id.Path())
}

// lockPath returns the path of the lock of a package in the state.
func lockPath(id sources.PackageID) string { return "lock/" + flat(id.Path()) + ".lock" }

// lockVersion locks the data that the packages of a version share. The lock is held
// only briefly. Several versions share a lock file, to keep the number of files in a
// cache small.
func (d *Dir) lockVersion(ctx context.Context, id sources.PackageID) (unlock func(), err error) {
	return d.lockAt(ctx, id, "evidence-"+nameFor(path.Dir(id.Path()))[:1])
}

// lockAt waits for the lock called name, on behalf of the package id. Without a state
// there are no locks, and it does nothing.
func (d *Dir) lockAt(ctx context.Context, id sources.PackageID, name string) (unlock func(), err error) {
	if d.state == nil {
		return func() {}, nil
	}
	locks, err := d.state.MakeSub("lock")
	if err != nil {
		return nil, err
	}
	defer locks.Close()
	l := locks.Lock(flat(name) + ".lock")
	l.Optional = d.shared
	if err := d.wait(ctx, l.Try, func() Holder { return Holder{ID: id, Holder: l.Holder()} }); err != nil {
		return nil, err
	}
	d.warnLockless(l)
	l.Announce(d.opts.Now())
	return l.Unlock, nil
}

func (d *Dir) warnLockless(l *disk.Lock) {
	if l.Lockless == nil {
		return
	}
	d.lockless.Do(func() {
		d.warn(fmt.Errorf("%s cannot be locked, so other processes may interfere: %w", d.root, d.explainOwner(l.Lockless)))
	})
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

// holdTofu takes OpenTofu's lock for a package that is about to be removed, if the
// lock file exists and is free. The file stays, because another process may be
// waiting for it: if it were removed, that process and the next one would hold
// different locks.
func (d *Dir) holdTofu(home *disk.Dir, id sources.PackageID) (unlock func(), err error) {
	name := tofuLockName(id.Platform)
	if _, err := home.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	f, err := home.OpenLock(name)
	if err != nil {
		return nil, err
	}
	ok, err := disk.TryWhole(f)
	if ok {
		return func() { f.Close() }, nil
	}
	defer f.Close()
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("locked by OpenTofu: %s", home.Path(name))
	if pid := disk.WholePID(f); pid != 0 {
		err = fmt.Errorf("locked by OpenTofu (pid %d): %s", pid, home.Path(name))
	}
	return nil, sources.WithHint(err, "run the command again when OpenTofu has finished")
}
