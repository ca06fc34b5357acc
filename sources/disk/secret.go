package disk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/larder-cli/larder/sources"
)

// ReadSecret is [Dir.ReadFile] for what no other user may know or choose: a file
// that another user owns or may read or write is an error.
func (d *Dir) ReadSecret(name string, limit int64) ([]byte, error) {
	f, info, err := d.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkPrivate(info); err != nil {
		return nil, sources.WithHint(fmt.Errorf("%s: %w", d.Path(name), err), "remove it, so that a new one is created")
	}
	return readAll(f, info, d.Path(name), limit)
}

// KeepSecret creates a file that only this user may read. If another process has
// created it meanwhile, that one stays. The result is what the file holds.
func (d *Dir) KeepSecret(name string, data []byte) ([]byte, error) {
	temp := "." + name + "." + rand.Text()
	f, err := d.Create(temp, 0o600)
	if err != nil {
		return nil, err
	}
	defer d.Remove(temp)
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	switch err := Link(d, temp, d, name); {
	case err == nil, errors.Is(err, fs.ErrExist):
	default: // the file system has no hardlinks
		if err := Rename(d, temp, d, name); err != nil {
			return nil, err
		}
	}
	return d.ReadSecret(name, int64(len(data))+1<<10)
}
