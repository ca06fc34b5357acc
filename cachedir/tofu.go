package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// lockTofu waits for the lock that OpenTofu holds while it checks, fetches and
// unpacks the package id, whose entry is in home, and returns the function to
// release it. The caller holds the package's own lock. As OpenTofu does, it creates
// the file if there is none, and leaves it there.
func (d *Dir) lockTofu(ctx context.Context, home *disk.Dir, id sources.PackageID) (unlock func(), err error) {
	f, err := home.EditFile(id.Platform.String() + ".lock")
	if err != nil {
		return nil, err
	}
	try := func() (bool, error) { return tryTofu(f) }
	if err := d.wait(ctx, try, func() Holder { return Holder{ID: id} }); err != nil {
		f.Close()
		return nil, fmt.Errorf("waiting for OpenTofu's lock: %w", err)
	}
	return func() { f.Close() }, nil
}

// holdTofu takes OpenTofu's lock for a package that is to be removed, if there is
// such a lock and it is free. The file stays, as another process may be waiting for
// it: were it removed, that one and the next would hold different locks.
func (d *Dir) holdTofu(home *disk.Dir, id sources.PackageID) (unlock func(), err error) {
	name := id.Platform.String() + ".lock"
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
	f.Close()
	if err == nil {
		err = errors.New("it is locked by OpenTofu")
	}
	return nil, err
}
