package disk

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// isMountPoint reports whether something is mounted at path. Kernels before 5.8
// cannot tell.
func isMountPoint(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

func exchange(from *Dir, name string, to *Dir, newName string) error {
	a, b, err := handles(from, to)
	if err != nil {
		return err
	}
	return unix.Renameat2(a, name, b, newName, unix.RENAME_EXCHANGE)
}

// CloneFile creates a file that shares its bytes with another one until one of the
// two is written to. The error matches [errors.ErrUnsupported] where the file
// system cannot do that; an empty file may be left over then.
func (d *Dir) CloneFile(name string, from *os.File, mode fs.FileMode) error {
	to, err := d.Create(name, mode)
	if err != nil {
		return err
	}
	return errors.Join(Clone(to, from), to.Close())
}

// Clone makes a new file share the bytes of another one until one of the two is
// written to. The error matches [errors.ErrUnsupported] where the file system
// cannot do that.
func Clone(to, from *os.File) error { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) }
