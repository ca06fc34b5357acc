package disk

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// UsageOf returns the disk usage of the file that info describes.
func UsageOf(path string, info fs.FileInfo) Usage {
	x := Usage{Bytes: info.Size(), Links: 1}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return x
	}
	h, err := windows.CreateFile(name, 0, shareAll, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return x
	}
	defer windows.CloseHandle(h)
	var by windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &by); err != nil {
		return x
	}
	x.File = FileID{uint64(by.FileIndexHigh)<<32 | uint64(by.FileIndexLow), uint64(by.VolumeSerialNumber)}
	x.Links = uint64(by.NumberOfLinks)
	return x
}

// LastRead returns no time. Windows updates access times only on some volumes, scanners update them too, and
// restoring one after a read would change the time of the last change, a part of the fingerprint.
func LastRead(string) time.Time { return time.Time{} }

// TryWhole takes OpenTofu's lock through f if it is free.
func TryWhole(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 0, math.MaxUint32, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// WholePID returns 0, because Windows does not report which process holds a lock.
func WholePID(*os.File) int { return 0 }
