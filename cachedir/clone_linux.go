package cachedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// cloneFile makes a file that shares the bytes of another until one of the two
// is written to.
func cloneFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	return errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close())
}
