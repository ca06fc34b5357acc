package disk

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/larder-cli/larder/sources"
)

const (
	openNow          = 0 // opening a pipe never waits on Windows
	noFollow         = 0
	onlyDirs         = ""
	removesOpenFiles = false

	syncFlag = os.O_RDWR // Windows flushes only files that are open for writing
)

var (
	fullErrors     = []syscall.Errno{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}
	tooLargeErrors = []syscall.Errno{windows.ERROR_FILE_TOO_LARGE}
	notEmptyErrors = []syscall.Errno{windows.ERROR_DIR_NOT_EMPTY}
)

// Identify returns the identity of the file at path. It follows a link at path.
// There is no birth time, because archives contain it. They do not contain the time
// of the last change, which only programs that run as the owner can set. FAT has
// neither.
func Identify(path string, _ fs.FileInfo) Identity {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return Identity{}
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(name, windows.FILE_READ_ATTRIBUTES, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return Identity{}
	}
	defer windows.CloseHandle(h)
	var id windows.ByHandleFileInformation
	if windows.GetFileInformationByHandle(h, &id) != nil {
		return Identity{}
	}
	i := Identity{Inode: uint64(id.FileIndexHigh)<<32 | uint64(id.FileIndexLow), Volume: uint64(id.VolumeSerialNumber)}
	var basic struct { // FILE_BASIC_INFO
		Created, Read, Written, Changed int64 // in units of 100 ns
		Attributes                      uint32
	}
	if windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&basic)), uint32(unsafe.Sizeof(basic))) == nil {
		i.Changed = basic.Changed
	}
	return i
}

// deviceOf always returns 0. A volume mounted in a directory is a reparse point,
// which os.Root does not treat as a directory.
func deviceOf(fs.FileInfo) uint64 { return 0 }

// renameAt retries for up to two seconds, because virus scanners keep new files
// open.
func renameAt(from *Dir, name string, to *Dir, newName string) error {
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := cause(os.Rename(from.Path(name), to.Path(newName)))
		busy := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !busy {
			return err
		}
		if time.Since(begun) > 2*time.Second {
			return sources.WithHint(err, "stop the programs that use these files, such as a running provider or a virus scanner")
		}
	}
}

func linkAt(from *Dir, name string, to *Dir, newName string) error {
	return cause(os.Link(from.Path(name), to.Path(newName)))
}

// cause returns err without the paths.
func cause(err error) error {
	var linkErr *os.LinkError
	if errors.As(err, &linkErr) {
		return linkErr.Err
	}
	return err
}

// syncDir does nothing: Windows cannot flush directories, and NTFS has a
// journal.
func syncDir(*os.File) error { return nil }

// Writable returns nil if files can be created in the directory, otherwise the
// reason why not.
func (d *Dir) Writable() error {
	t, err := d.NewTemp("probe")
	if err != nil {
		return err
	}
	t.Discard()
	return nil
}

// checkPrivate checks nothing: modes mean nothing on Windows, and the file is
// in the user's profile directory, which other users cannot access.
func checkPrivate(fs.FileInfo) error { return nil }

// Own reports whether only this user and administrators can write to a file. It always
// returns true: a description of a file on Windows has neither its owner nor its access
// control list.
func Own(fs.FileInfo) bool { return true }

// OwnDir always returns true: see [Own].
func OwnDir(fs.FileInfo) bool { return true }

// bequeath keeps the lock of a scratch directory until this process ends, which waits
// for the next program.
func (s *Scratch) bequeath() (bool, error) {
	bequeathed.Store(s, nil)
	return true, nil
}

var bequeathed sync.Map // of the scratch directories, which are never closed

// sharingOf always returns nil: what is created in a directory inherits its access
// control list.
func sharingOf(fs.FileInfo) *sharing { return nil }

func groupOf(fs.FileInfo) int { return -1 }

// Replaceable always returns nil: see [Own].
func (d *Dir) Replaceable(string) error { return nil }

// Owner always returns nothing: see [Own].
func Owner(string) string { return "" }

// sameOwner always returns true: see [Own].
func sameOwner(_, _ fs.FileInfo) bool { return true }

// IgnoresModes reports whether this user may write to files regardless of their
// modes.
func IgnoresModes() bool { return false }

// Executable always returns true: Windows has no execute permission in modes.
func Executable(fs.FileInfo) bool { return true }

// LetExecute does nothing.
func (d *Dir) LetExecute(string) error { return nil }

// Seal does nothing: Windows cannot remove read-only files.
func (d *Dir) Seal(string) {}

func owned(fs.FileInfo) bool { return true }

// linksOf returns the number of names of an open file, 0 if it is unknown.
func linksOf(f *os.File, _ fs.FileInfo) uint64 {
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return 0
	}
	return uint64(info.NumberOfLinks)
}

// unwaited returns f: no file on a disk can be waited for.
func unwaited(f *os.File) (*os.File, error) { return f, nil }

// FreeSpace returns how many bytes can still be written below path, and false
// if that is unknown.
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
