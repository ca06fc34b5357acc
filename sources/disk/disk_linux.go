package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// isMountPoint reports whether path is a mount point. On kernels before 5.8 it
// always returns false.
func isMountPoint(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// NoExec reports whether the file system of an existing file is mounted so that no program on it can be started.
func NoExec(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.ST_NOEXEC != 0
}

// placeOf returns the path of an open file, without links.
func placeOf(f *os.File) (path string, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return "", err
	}
	readErr := conn.Control(func(fd uintptr) { path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd))) })
	return path, errors.Join(err, readErr)
}

func exchange(from *Dir, name string, to *Dir, newName string) error {
	return handles(from, to, func(a, b int) error {
		return unix.Renameat2(a, name, b, newName, unix.RENAME_EXCHANGE)
	})
}

// CloneFile creates a file that shares its data with another one until either
// is written to. The error matches [errors.ErrUnsupported] if the file system
// cannot do that. An empty file may then be left.
func (d *Dir) CloneFile(name string, from *os.File, mode fs.FileMode) error {
	to, err := d.Create(name, mode)
	if err != nil {
		return err
	}
	return errors.Join(Clone(to, from), to.Close())
}

// Clone makes a new file share the data of another one until either is written
// to. The error matches [errors.ErrUnsupported] if the file system cannot do
// that.
func Clone(to, from *os.File) error { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) }

// touch sets the times of an open file.
func touch(f *os.File, at time.Time) error {
	return os.Chtimes(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), at, at)
}
