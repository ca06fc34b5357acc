//go:build unix

package cachedir

import "os"

const syncFlag = os.O_RDONLY

func rename(from, to string) error { return os.Rename(from, to) }

// syncDir sees to it that the names in dir are on the medium.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	// Some file systems cannot, and then nobody can do better.
	_ = f.Sync()
	return f.Close()
}
