package disk

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// OpenFile opens the regular file at path for reading, and follows links. It refuses
// pipes and devices without waiting for them. Reading doesn't wait either: it fails for
// a file of the kernel, such as /proc/kmsg, that has no data.
func OpenFile(path string) (*os.File, fs.FileInfo, error) {
	f, err := OpenAny(path)
	if err != nil {
		return nil, nil, err
	}
	return regular(f, path)
}

func regular(f *os.File, path string) (*os.File, fs.FileInfo, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err == nil && f.SetReadDeadline(time.Time{}) == nil { // no file on a disk has deadlines
		f, err = unwaited(f)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// ErrNotRegular matches the error of opening a file that is not regular.
var ErrNotRegular = errors.New("not a regular file")

// A LimitError reports that a file is larger than permitted.
type LimitError struct {
	Path  string
	Limit int64 // in bytes
}

func (e *LimitError) Error() string { return fmt.Sprintf("%s has more than %d bytes", e.Path, e.Limit) }

// ReadFile reads the regular file at path, and follows links. A file of more
// than limit bytes is a [LimitError].
func ReadFile(path string, limit int64) ([]byte, error) {
	f, info, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, info, path, limit)
}

func readAll(f *os.File, info fs.FileInfo, path string, limit int64) ([]byte, error) {
	var text bytes.Buffer
	text.Grow(int(min(info.Size(), limit)) + bytes.MinRead) // the whole file fits without growing again
	_, err := text.ReadFrom(io.LimitReader(f, limit+1))
	data := text.Bytes()
	if err == nil && int64(len(data)) > limit {
		err = &LimitError{path, limit}
	}
	return data, err
}

// OpenFile opens a regular file for reading. A link is a [StrayError].
func (d *Dir) OpenFile(name string) (*os.File, fs.FileInfo, error) {
	return d.open(name, os.O_RDONLY)
}

// EditFile opens a regular file for reading and writing. A link is a [StrayError]. The error matches
// [ErrShared] if others may see what is written, because the file has another name or another owner.
func (d *Dir) EditFile(name string) (*os.File, error) {
	f, _, err := d.open(name, os.O_RDWR)
	if err != nil || isSole(f) {
		return f, err
	}
	f.Close()
	return nil, d.shared(name)
}

// OpenLock opens a regular file that is locked and never written to, and creates
// it if it is missing. A link is a [StrayError]. A file of another user may be open for
// reading only.
func (d *Dir) OpenLock(name string) (*os.File, error) {
	return d.openLock(name, os.O_RDWR|os.O_CREATE)
}

func (d *Dir) openLock(name string, flag int) (*os.File, error) {
	f, info, err := d.open(name, flag)
	if denied := err; errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		if f, info, err = d.open(name, os.O_RDONLY); isMissing(err) {
			err = denied // it could not be created
		}
	}
	if mode := d.lockMode(); err == nil && mode&^info.Mode() != 0 && isSole(f) {
		_ = f.Chmod(info.Mode().Perm() | mode) // see [Dir.admit]
	}
	return f, err
}

// ErrShared matches the error of changing a file in place that has another name
// or another owner.
var ErrShared = errors.New("it has another hardlink or another owner")

func (d *Dir) shared(name string) error {
	return &fs.PathError{Op: "change", Path: d.Path(name), Err: ErrShared}
}

// isSole reports whether this user owns the open file, and it has no other name.
// Everything that changes files in place calls it, because others can put
// hardlinks of the user's files into a directory.
func isSole(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && owned(info) && linksOf(f, info) == 1
}

func (d *Dir) open(name string, flag int) (f *os.File, info fs.FileInfo, err error) {
	if r, err := d.resolve(name); err != nil && flag&os.O_CREATE == 0 {
		return nil, nil, err
	} else if r != nil {
		defer r.Close()
		if f, err := r.open(flag); err == nil {
			return regular(f, r.Name())
		}
	}
	err = d.at(name, func(in *Dir, base string) error {
		f, info, err = in.openFile(base, flag)
		return err
	})
	return f, info, err
}

// openFile opens a regular file, whose name has one element.
func (d *Dir) openFile(name string, flag int) (f *os.File, info fs.FileInfo, err error) {
	open := func(flag int) (*os.File, fs.FileInfo, error) {
		f, err := d.root.OpenFile(name, flag|openNow, 0o644&d.lockMode())
		if err != nil {
			return nil, nil, err
		}
		return regular(f, d.Path(name))
	}
	for range attempts {
		f, info, err = examined(d, name, d.checkRegular, func() (*os.File, fs.FileInfo, error) {
			return open(flag &^ os.O_CREATE)
		})
		if flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if f, info, err = open(flag | os.O_EXCL); !errors.Is(err, fs.ErrExist) { // follows no link
			break
		}
	}
	return f, info, err
}

// ReadFile reads a regular file. A file of more than limit bytes is a
// [LimitError], a link is a [StrayError].
func (d *Dir) ReadFile(name string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := d.OpenFile(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := readAll(f, info, d.Path(name), limit)
	return data, info, err
}

// Create creates a file for reading and writing. The file must not exist, its
// directory must.
func (d *Dir) Create(name string, mode fs.FileMode) (f *os.File, err error) {
	err = d.at(name, func(in *Dir, base string) error {
		if f, err = in.root.OpenFile(base, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
		// The umask affects the mode given to OpenFile, but not Chmod.
		if err := f.Chmod(mode); err != nil {
			f.Close()
			return errors.Join(err, in.unlink(base))
		}
		return nil
	})
	return f, err
}

// CreateTemp creates a file with a unique name, for reading and writing.
func (d *Dir) CreateTemp(prefix string) (f *os.File, name string, err error) {
	name = prefix + rand.Text()
	f, err = d.Create(name, 0o600)
	return f, name, err
}

// allocating lets one file have the last space, when several would each get a part of it.
var allocating sync.Mutex

// Allocate takes the space from the disk that a file lacks to grow to size bytes, unless less than spare bytes would
// then be free. The file keeps its length; truncating it ends the reservation. Where the file system can't reserve
// space, Allocate only compares with the free space.
func Allocate(f *os.File, size, spare int64) error {
	allocating.Lock()
	defer allocating.Unlock()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	free, known := FreeSpace(filepath.Dir(f.Name()))
	lacks := size - UsageOf(f.Name(), info).Bytes
	if known && lacks > 0 && free-spare < lacks { // allocating would take all that is free, and then fail
		err = fullErrors[0]
	} else if err = fallocate(f, size); err != nil {
		_ = f.Truncate(info.Size())
	}
	if IsFull(err) || IsTooLarge(err) {
		return &fs.PathError{Op: "allocate", Path: f.Name(), Err: err}
	}
	return nil
}

// Touch sets the access and modification times of a regular file, unless the
// file has another name or another owner.
func (d *Dir) Touch(name string, at time.Time) error {
	return d.at(name, func(in *Dir, base string) error {
		f, _, err := in.OpenFile(base)
		if err != nil {
			return err
		}
		defer f.Close()
		if !isSole(f) {
			return in.shared(base)
		}
		return in.root.Chtimes(base, at, at)
	})
}

// TouchSub sets the modification time of a directory in d.
func (d *Dir) TouchSub(name string, at time.Time) error {
	sub, err := d.Sub(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	return sub.named(sub.root.Chtimes(".", at, at))
}
