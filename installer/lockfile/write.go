package lockfile

import (
	"fmt"

	"github.com/larder-cli/larder/sources/disk"
)

// Write makes text the lock file at path, whole or not at all. It is readable
// by everyone whatever the umask. A symlink at path is replaced, not followed.
func Write(path string, text []byte) error {
	if err := disk.WriteFile(path, text, disk.Synced); err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	return nil
}
