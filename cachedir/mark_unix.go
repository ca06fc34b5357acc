//go:build unix

package cachedir

import (
	"io/fs"
	"os"
	"syscall"
)

// identity is what tells a file from all others on this machine.
func identity(_ string, info fs.FileInfo) (inode, device uint64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return st.Ino, uint64(st.Dev)
}

// foreign reports whether a user other than this one and root owns a file.
func foreign(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
