//go:build !linux && !darwin

package disk

import (
	"errors"
	"io/fs"
	"os"
)

func exchange(*Dir, string, *Dir, string) error { return errors.ErrUnsupported }

// CloneFile returns [errors.ErrUnsupported]: this system cannot clone files.
func (d *Dir) CloneFile(string, *os.File, fs.FileMode) error { return errors.ErrUnsupported }

// Boot returns an empty string: this system has no ID for each boot.
func Boot() string { return "" }

const setOwnLock = 0 // there are no such locks
