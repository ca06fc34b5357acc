//go:build !linux && !darwin

package disk

import (
	"errors"
	"io/fs"
	"os"
)

// isMountPoint is left to the comparison of devices, and on Windows to os.Root,
// which takes a mount point for a link.
func isMountPoint(string) bool { return false }

func exchange(*Dir, string, *Dir, string) error { return errors.ErrUnsupported }

// CloneFile is for systems that let files share their bytes.
func (d *Dir) CloneFile(string, *os.File, fs.FileMode) error { return errors.ErrUnsupported }

// Clone is for systems that can share bytes between open files.
func Clone(to, from *os.File) error { return errors.ErrUnsupported }
