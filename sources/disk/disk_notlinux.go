//go:build !linux

package disk

import (
	"errors"
	"os"
)

// isMountPoint always returns false. Comparing devices detects mounts: macOS has no
// bind mounts, and on Windows, os.Root treats a mount as a link.
func isMountPoint(string) bool { return false }

// resolve returns nil: these systems have no such call.
func (d *Dir) resolve(string) (*resolved, error) { return nil, nil }

func (r *resolved) open(int) (*os.File, error) { return nil, errors.ErrUnsupported }

// fallocate returns [errors.ErrUnsupported]: Larder doesn't use the calls of these systems.
func fallocate(*os.File, int64) error { return errors.ErrUnsupported }

// NoExec always returns false: these systems have no such call, or it is not used.
func NoExec(string) bool { return false }

// Clone returns [errors.ErrUnsupported]: these systems cannot clone into an open
// file.
func Clone(to, from *os.File) error { return errors.ErrUnsupported }
