package lockfile

import (
	"fmt"
	"os"
	"path/filepath"
)

// Write makes text the lock file at path, whole or not at all. It is readable
// by everyone whatever the umask. A symlink at path is replaced, not followed.
func Write(path string, text []byte) error {
	if err := replace(path, text); err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	return nil
}

func replace(path string, text []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		tmp.Close() // closed already if all went well
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if _, err := tmp.Write(text); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
