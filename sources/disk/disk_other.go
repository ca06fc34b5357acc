//go:build !linux && !darwin

package disk

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// isMountPoint always returns false. Comparing devices detects mounts; on
// Windows, os.Root treats a mount as a link.
func isMountPoint(string) bool { return false }

func exchange(*Dir, string, *Dir, string) error { return errors.ErrUnsupported }

// CloneFile returns [errors.ErrUnsupported]: this system cannot clone files.
func (d *Dir) CloneFile(string, *os.File, fs.FileMode) error { return errors.ErrUnsupported }

// Clone returns [errors.ErrUnsupported]: this system cannot clone files.
func Clone(to, from *os.File) error { return errors.ErrUnsupported }

// setTimes sets the times of an open file, which is at path. A zero time stays.
// This system sets them by path.
func setTimes(_ *os.File, path string, access, change time.Time) error {
	return os.Chtimes(path, access, change)
}
