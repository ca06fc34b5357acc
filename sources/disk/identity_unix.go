//go:build unix && !linux

package disk

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Identify returns the identity of the file at path, which info describes. It
// follows a link at path. There is no birth time: on macOS, users can set it.
func Identify(path string, _ fs.FileInfo) Identity {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return Identity{}
	}
	return Identity{Inode: st.Ino, Volume: uint64(st.Dev), Changed: st.Ctim.Nano()}
}
