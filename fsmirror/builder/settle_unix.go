//go:build unix

package builder

import (
	"errors"
	"os"
	"syscall"
)

// syncDir sees to it that the names in a directory are on the medium, where the
// file system can do that.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
