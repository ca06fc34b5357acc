package cachedir

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// extentOf is what the file info is about takes on disk.
func extentOf(path string, info fs.FileInfo) extent {
	x := extent{bytes: info.Size(), links: 1}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return x
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(name, 0, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return x
	}
	defer windows.CloseHandle(h)
	var by windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &by); err != nil {
		return x
	}
	x.file = file{uint64(by.FileIndexHigh)<<32 | uint64(by.FileIndexLow), uint64(by.VolumeSerialNumber)}
	x.links = uint64(by.NumberOfLinks)
	return x
}

// lastRead is when the file at path was last read, as far as the file system
// notes that.
func lastRead(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	data, ok := info.Sys().(*syscall.Win32FileAttributeData)
	if !ok {
		return time.Time{}
	}
	return time.Unix(0, data.LastAccessTime.Nanoseconds())
}
