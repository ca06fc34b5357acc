//go:build unix

package staging

import (
	"errors"
	"os"
	"syscall"
)

// syncMode is how a file is opened that is only to be flushed: one may not be
// allowed to write to what others have made.
const syncMode = os.O_RDONLY

// SyncDir sees to it that the names in a directory are on the medium, where the
// file system can do that.
func SyncDir(dir string) error {
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
