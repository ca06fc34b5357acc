package disk

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// isMountPoint always returns false, because macOS has no bind mounts.
// Comparing devices suffices.
func isMountPoint(string) bool { return false }

func exchange(from *Dir, name string, to *Dir, newName string) error {
	a, b, err := handles(from, to)
	if err != nil {
		return err
	}
	return unix.RenameatxNp(a, name, b, newName, unix.RENAME_SWAP)
}

// CloneFile creates a file that shares its data with another one until either
// is written to. The error matches [errors.ErrUnsupported] if the file system
// cannot do that.
func (d *Dir) CloneFile(name string, from *os.File, mode fs.FileMode) error {
	f, err := d.handle()
	if err != nil {
		return err
	}
	if err := unix.Fclonefileat(int(from.Fd()), int(f.Fd()), name, 0); err != nil {
		return &fs.PathError{Op: "clone", Path: d.Path(name), Err: err}
	}
	return d.named(d.root.Chmod(name, mode))
}

// Clone returns [errors.ErrUnsupported]: this system cannot clone into an open
// file.
func Clone(to, from *os.File) error { return errors.ErrUnsupported }

// setTimes sets the times of an open file, which is at path. A zero time stays.
// This system sets them by path.
func setTimes(_ *os.File, path string, access, change time.Time) error {
	return os.Chtimes(path, access, change)
}
