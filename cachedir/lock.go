package cachedir

import (
	"context"
	"fmt"
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
	if err := d.wait(ctx, l.Try, func() Holder { return Holder{id, l.Holder()} }); err != nil {
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
		d.warn(fmt.Errorf("%s cannot be locked, so other processes may get in the way: %w", d.root, l.Lockless))
	})
}
