//go:build !linux && !darwin && !freebsd && !windows

package disk

// FreeSpace is how many bytes may still be written below path, if that is known.
func FreeSpace(path string) (int64, bool) { return 0, false }
