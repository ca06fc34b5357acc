package cachedir

import (
	"errors"
	"io/fs"
	"os"

	"github.com/gofrs/flock"
)

// A temp is a file on its way to another name. While there is one its maker
// shares the lock on temp.lock, so that whoever has that lock alone knows every
// such file to be a dead process's.
type temp struct {
	*os.File
	lock *flock.Flock
}

func (d *Dir) createTemp() (*temp, error) {
	lock := d.newWholeLock("temp")
	if err := lock.RLock(); err != nil && !lockless(err) {
		return nil, err
	}
	f, err := os.CreateTemp(d.tmp(), "temp-*")
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &temp{f, lock}, nil
}

// discard removes the file, unless it has got another name. If it cannot, that
// is for whoever comes next.
func (t *temp) discard() {
	_ = t.Close() // closed already if all went well
	_ = os.Remove(t.Name())
	_ = t.lock.Close()
}

// removeTemps removes the files of dead processes, unless somebody is making
// one: then it is for whoever comes next to do.
func (d *Dir) removeTemps(tmp *os.Root) {
	lock := d.newWholeLock("temp")
	if ok, err := lock.TryLock(); err != nil || !ok {
		return
	}
	defer lock.Close()
	entries, _ := fs.ReadDir(tmp.FS(), ".")
	for _, e := range entries {
		if !e.IsDir() {
			d.warn(tmp.Remove(e.Name()))
		}
	}
}
