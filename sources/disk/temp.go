package disk

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Durability states whether data must be on the disk when a write returns.
type Durability bool

// The durabilities. A power failure may empty or remove a file that was written
// Lazily.
const (
	Lazily Durability = false
	Synced Durability = true
)

// WriteFile atomically writes data to the file at path, which the user named.
// The file is readable by all users. A link at path is replaced. Temporary files
// for it that killed runs have left are removed once they are [Abandoned].
func WriteFile(path string, data []byte, when Durability) error {
	d, err := Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	d.removeAbandoned(filepath.Base(path))
	return d.WriteFile(filepath.Base(path), data, when)
}

// removeAbandoned removes the temporary files for name that killed runs have left, as far as that works.
func (d *Dir) removeAbandoned(name string) {
	entries, _ := d.ReadDir()
	for _, e := range entries {
		letters, ok := strings.CutPrefix(e.Name(), "."+name+".")
		if !ok || len(letters) != len(rand.Text()) || !isRandom(letters) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > Abandoned {
			_ = d.Remove(e.Name())
		}
	}
}

// WriteFile atomically writes data to a file directly in d.
func (d *Dir) WriteFile(name string, data []byte, when Durability) error {
	return d.WriteVia(d, name, data, when)
}

// WriteVia is like WriteFile, but its temporary file is in the directory via on
// the same file system. If the process is killed, the temporary file stays
// there.
func (d *Dir) WriteVia(via *Dir, name string, data []byte, when Durability) error {
	t, err := via.NewTemp(name)
	if err != nil {
		return err
	}
	defer t.Discard()
	if _, err := t.Write(data); err != nil {
		return err
	}
	return t.commit(d, name, when)
}

// A Temp is a temporary file that Commit renames to its final name. Errors of writing it name the file
// that it becomes, because users don't know the temporary one.
type Temp struct {
	*os.File
	Hidden fs.FileMode // mode bits that the committed file doesn't get, see [Hidden]

	in    *Dir
	name  string
	final string // path of the file that it becomes
}

// NewTemp creates a temporary file in d for the final name.
func (d *Dir) NewTemp(name string) (*Temp, error) {
	t := &Temp{in: d, final: d.Path(name)}
	var err error
	t.File, t.name, err = d.CreateTemp("." + name + ".")
	if err != nil {
		return nil, t.finally(err)
	}
	return t, nil
}

// finally makes an error of the temporary file name the file that it becomes.
func (t *Temp) finally(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: t.final, Err: e.Err}
	}
	return err
}

// Write implements [io.Writer].
func (t *Temp) Write(data []byte) (int, error) {
	n, err := t.File.Write(data)
	return n, t.finally(err)
}

// Sync is [os.File.Sync].
func (t *Temp) Sync() error { return t.finally(t.File.Sync()) }

// Commit syncs the file and renames it to name, replacing an existing file.
func (t *Temp) Commit(name string) error { return t.commit(t.in, name, Synced) }

func (t *Temp) commit(in *Dir, name string, when Durability) error {
	var err error
	if when == Synced {
		err = t.Sync()
	}
	if err := errors.Join(err, t.Chmod(0o644&^t.Hidden), t.Close()); err != nil {
		return t.finally(err)
	}
	if err := Rename(t.in, t.name, in, name); err != nil {
		return err
	}
	t.name = ""
	if when == Synced {
		return in.Sync()
	}
	return nil
}

// Discard removes the file unless it has been committed.
func (t *Temp) Discard() {
	if t.name != "" {
		t.Close() // already closed, unless writing failed
		_ = t.in.Remove(t.name)
	}
}
