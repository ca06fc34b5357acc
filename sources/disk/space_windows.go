package disk

import (
	"math"

	"golang.org/x/sys/windows"
)

// FreeSpace is how many bytes may still be written below path, if that is known.
func FreeSpace(path string) (int64, bool) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, false
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, false
	}
	return int64(min(free, math.MaxInt64)), true
}
