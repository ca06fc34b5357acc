//go:build !linux

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// isMountPoint always returns false. Comparing devices detects mounts: macOS has no
// bind mounts, and on Windows, os.Root treats a mount as a link.
func isMountPoint(string) bool { return false }

// resolve returns nil: these systems have no such call.
func (d *Dir) resolve(string) (*resolved, error) { return nil, nil }

func (r *resolved) open(int) (*os.File, error) { return nil, errors.ErrUnsupported }

// NoExec always returns false: these systems have no such call, or it is not used.
func NoExec(string) bool { return false }

// placeOf returns the path of an open file, without links. It may be that of another file by
// now.
func placeOf(f *os.File) (string, error) {
	path, err := filepath.Abs(f.Name())
	if err != nil {
		return "", err
	}
	return Resolve(path)
}

// Clone returns [errors.ErrUnsupported]: these systems cannot clone into an open
// file.
func Clone(to, from *os.File) error { return errors.ErrUnsupported }

// touch sets the times of an open file. These systems set them by path.
func touch(f *os.File, at time.Time) error { return os.Chtimes(f.Name(), at, at) }
