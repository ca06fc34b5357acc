//go:build unix

package cachedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryTofu takes OpenTofu's lock through f if it is free, or if the file system has
// no locks. OpenTofu's is a record lock on the whole file that belongs to its
// process. Ours belongs to f, where the system has such locks, and so is kept when
// another part of this program closes the same file; the two exclude each other all
// the same. Elsewhere it is of OpenTofu's kind, and our own lock for the package
// keeps the goroutines of this process apart.
func tryTofu(f *os.File) (bool, error) {
	err := unix.FcntlFlock(f.Fd(), setLock, wholeFile())
	if errors.Is(err, unix.EINVAL) && setLock != unix.F_SETLK {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, wholeFile())
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.ENOLCK) {
		return true, nil
	}
	return err == nil, err
}

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }
