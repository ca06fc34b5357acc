package disk

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// KeepingOpenFiles simulates NFS, SMB or FUSE: a directory that had a file which this process still has open
// isn't empty.
func KeepingOpenFiles() (restore func()) {
	was := rmdir
	rmdir = func(d *Dir, name string) error {
		open, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range open {
			if path, _ := os.Readlink(fd); strings.HasPrefix(path, d.Path(name)+"/") {
				return unix.ENOTEMPTY
			}
		}
		return was(d, name)
	}
	return func() { rmdir = was }
}

// WithoutOpenat2 simulates a system that cannot resolve a path in one call.
func WithoutOpenat2() (restore func()) {
	was := openat2
	openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, unix.ENOSYS }
	return func() { openat2 = was }
}
