package sourcetest

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// canExchange reports whether the file system of a directory can exchange two names in one step.
func canExchange(dir string) bool {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	return os.Mkdir(a, 0o755) == nil && os.Mkdir(b, 0o755) == nil && unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil
}
