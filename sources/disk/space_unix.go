//go:build linux || darwin || freebsd

package disk

import "golang.org/x/sys/unix"

// FreeSpace returns how many bytes can still be written below path, and false
// if that is unknown.
func FreeSpace(path string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil || st.Blocks == 0 {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
