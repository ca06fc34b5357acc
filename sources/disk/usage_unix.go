//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// UsageOf returns the disk usage of the file that info describes.
func UsageOf(path string, info fs.FileInfo) Usage {
	x := Usage{Bytes: info.Size(), Links: 1}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return x
	}
	x.File = FileID{st.Ino, uint64(st.Dev)}
	x.Links = uint64(st.Nlink)
	x.Bytes = st.Blocks * 512
	return x
}

// LastRead returns the access time of the file at path, if the file system records
// it.
func LastRead(path string) time.Time {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return time.Time{}
	}
	return time.Unix(st.Atim.Unix())
}

// TryWhole takes OpenTofu's lock through f if it is free, or if the file system has no
// locks. OpenTofu's lock is a record lock on the whole file, owned by the process.
// Where the system supports it, Larder's lock is owned by f instead, so that it
// survives when another part of this program closes the same file. The two kinds
// exclude each other. On other systems Larder's lock is of OpenTofu's kind, and the
// package's own lock separates the goroutines of this process.
//
// A lock file that another user has made may be open for reading only. A read lock
// excludes OpenTofu too, and the package's own lock separates processes of Larder.
func TryWhole(f *os.File) (bool, error) {
	lock := wholeFile()
	err := unix.FcntlFlock(f.Fd(), setLock, lock)
	if errors.Is(err, unix.EBADF) {
		lock.Type = unix.F_RDLCK
		err = unix.FcntlFlock(f.Fd(), setLock, lock)
	}
	if errors.Is(err, unix.EINVAL) && setLock != unix.F_SETLK {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, lock)
	}
	if isHeld(err) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.ENOLCK) {
		return true, nil
	}
	return err == nil, err
}

// WholePID returns the ID of the process that holds OpenTofu's lock, or 0 if the
// system does not report one. That is the case if the process is on another machine
// or in another container, or has released the lock.
func WholePID(f *os.File) int {
	lock := wholeFile()
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return max(int(lock.Pid), 0)
}

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }
