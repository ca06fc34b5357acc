//go:build unix

package cachedir

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// extentOf is what the file info is about takes on disk.
func extentOf(path string, info fs.FileInfo) extent {
	x := extent{bytes: info.Size(), links: 1}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return x
	}
	x.file = file{st.Ino, uint64(st.Dev)}
	x.links = uint64(st.Nlink)
	x.bytes = st.Blocks * 512
	return x
}

// lastRead is when the file at path was last read, as far as the file system
// notes that.
func lastRead(path string) time.Time {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return time.Time{}
	}
	return time.Unix(st.Atim.Unix())
}
