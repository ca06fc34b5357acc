//go:build unix

package cachedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryTofu takes OpenTofu's lock through f if it is free. It is a record lock on
// the whole file and belongs to the process, so it excludes no goroutine, and
// closing any file open for the same path frees it. Nobody gets here without
// holding our own lock for the package, which makes both harmless.
func tryTofu(f *os.File) (bool, error) {
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}
