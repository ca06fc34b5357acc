package disk

import "golang.org/x/sys/unix"

// WithoutOpenat2 simulates a system that cannot resolve a path in one call.
func WithoutOpenat2() (restore func()) {
	was := openat2
	openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, unix.ENOSYS }
	return func() { openat2 = was }
}
