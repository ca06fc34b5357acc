//go:build !linux && !darwin && !freebsd && !windows

package disk

// FreeSpace returns how many bytes can still be written below path, and false
// if that is unknown.
func FreeSpace(path string) (int64, bool) { return 0, false }
