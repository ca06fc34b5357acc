package disk

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/larder-cli/larder/sources"
)

// ReadSecret is like [Dir.ReadFile], for a file that no other user may read or
// write. It returns an error if another user owns the file or has access to it. On
// Windows it checks neither: the file is in the user's profile directory, which other
// users cannot access.
func (d *Dir) ReadSecret(name string, limit int64) ([]byte, error) {
	f, info, err := d.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	path, mode := d.Path(name), info.Mode().Perm()
	switch {
	case !owned(info):
		return nil, sources.WithHint(fmt.Errorf("%s: another user owns it", path), "remove it: larder creates a new one")
	case hasModes && mode&0o077 != 0:
		err := fmt.Errorf("%s: its mode %#o lets other users read or write it", path, mode)
		return nil, sources.WithHint(err, "run chmod 600 %s", path)
	}
	return readAll(f, info, path, limit)
}

// KeepSecret creates a file that only this user may read, and returns its
// contents. If another process creates the file first, KeepSecret returns the
// contents of that file.
func (d *Dir) KeepSecret(name string, data []byte) ([]byte, error) {
	t, err := d.NewTemp(name)
	if err != nil {
		return nil, err
	}
	defer t.Discard()
	t.Hidden = all
	if _, err := t.Write(data); err != nil {
		return nil, err
	}
	if err := t.Sync(); err != nil {
		return nil, err
	}
	if err := Link(d, t.name, d, name); err != nil && !errors.Is(err, fs.ErrExist) { // some file systems have no hardlinks
		if err := t.Commit(name); err != nil {
			return nil, err
		}
	}
	return d.ReadSecret(name, int64(len(data))+1<<10)
}
