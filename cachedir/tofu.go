package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
)

// lockTofu waits for the lock that OpenTofu holds while it checks, fetches and
// unpacks a package, and returns the function to free it. The caller holds the
// package's own lock. As OpenTofu does, it makes the file if there is none, and
// leaves it there.
func (d *Dir) lockTofu(ctx context.Context, id sources.PackageID) (unlock func(), err error) {
	path := d.entry(id) + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	try := func() (bool, error) {
		ok, err := tryTofu(f)
		if lockless(err) {
			return true, nil // that there are no locks has been said already
		}
		return ok, err
	}
	if err := d.wait(ctx, try, func() Holder { return Holder{ID: id} }); err != nil {
		f.Close()
		return nil, fmt.Errorf("waiting for OpenTofu's lock: %w", err)
	}
	return func() { f.Close() }, nil
}

// holdTofu takes OpenTofu's lock for a package that is to go, if there is such a
// lock and it is free. The file stays, as somebody may be waiting for it: were
// it removed, that one and the next would hold different locks.
func (d *Dir) holdTofu(id sources.PackageID) (unlock func(), err error) {
	f, err := os.OpenFile(d.entry(id)+".lock", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	ok, err := tryTofu(f)
	if ok || lockless(err) {
		return func() { f.Close() }, nil
	}
	f.Close()
	if err == nil {
		err = errors.New("it is locked by OpenTofu")
	}
	return nil, err
}
