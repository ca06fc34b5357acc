//go:build linux || darwin || freebsd

package cachedir

import "golang.org/x/sys/unix"

// freeSpace is how many bytes may yet be written to dir, if that is known.
func freeSpace(dir string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Blocks == 0 {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
