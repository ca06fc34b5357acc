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

// lock waits for the lock of the package and returns the function to release it.
func (d *Dir) lock(ctx context.Context, id sources.PackageID) (unlock func(), err error) {
	return d.lockAt(ctx, id, id.Path())
}

// lockVersion is lock for what the packages of a version share, which takes no time. Some
// versions share a lock: each lock is one more file in every cache.
func (d *Dir) lockVersion(ctx context.Context, id sources.PackageID) (unlock func(), err error) {
	return d.lockAt(ctx, id, "evidence-"+nameFor(path.Dir(id.Path()))[:1])
}

// lockAt waits for the lock with the given name, which has to do with the package
// id. Without a state nobody else can be waited for.
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
		d.warn(fmt.Errorf("%s cannot be locked, so other processes may interfere: %w", d.root, l.Lockless))
	})
}

// lockTofu waits for the lock that OpenTofu holds while it checks, fetches and
// unpacks the package id, whose entry is in home, and returns the function to
// release it. The caller holds the package's own lock. As OpenTofu does, it creates
// the file if there is none, and leaves it there.
func (d *Dir) lockTofu(ctx context.Context, home *disk.Dir, id sources.PackageID) (unlock func(), err error) {
	name := tofuLockName(id.Platform)
	f, err := home.EditFile(name)
	if err != nil {
		return nil, err
	}
	try := func() (bool, error) { return tryTofu(f) }
	holder := func() Holder { return Holder{ID: id, Holder: disk.Holder{PID: tofuPID(f)}, Tofu: home.Path(name)} }
	if err := d.wait(ctx, try, holder); err != nil {
		f.Close()
		return nil, fmt.Errorf("waiting for OpenTofu's lock %s: %w", home.Path(name), err)
	}
	return func() { f.Close() }, nil
}

// tofuLockName is the name of OpenTofu's lock file for a package, beside the entry.
func tofuLockName(p sources.Platform) string { return p.String() + ".lock" }

// holdTofu takes OpenTofu's lock for a package that is to be removed, if there is
// such a lock and it is free. The file stays, as another process may be waiting for
// it: were it removed, that one and the next would hold different locks.
func (d *Dir) holdTofu(home *disk.Dir, id sources.PackageID) (unlock func(), err error) {
	name := tofuLockName(id.Platform)
	if _, err := home.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	f, err := home.EditFile(name)
	if err != nil {
		return nil, err
	}
	ok, err := tryTofu(f)
	if ok {
		return func() { f.Close() }, nil
	}
	defer f.Close()
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("locked by OpenTofu: %s", home.Path(name))
	if pid := tofuPID(f); pid != 0 {
		err = fmt.Errorf("locked by OpenTofu (pid %d): %s", pid, home.Path(name))
	}
	return nil, sources.WithHint(err, "run the command again when OpenTofu has finished")
}
