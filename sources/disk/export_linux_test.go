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
