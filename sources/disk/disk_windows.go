package disk

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	openNow          = 0 // opening a pipe never waits on Windows
	onlyDirs         = ""
	removesOpenFiles = false
	hasModes         = false

	syncFlag = os.O_RDWR // Windows flushes only files that are open for writing
)

var (
	fullErrors = []syscall.Errno{
		windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
	}
	tooLargeErrors = []syscall.Errno{windows.ERROR_FILE_TOO_LARGE}
	notEmptyErrors = []syscall.Errno{windows.ERROR_DIR_NOT_EMPTY}
)

// OpenAny opens the file or directory at path for reading, and follows links. Unlike [os.Open], it lets other
// processes replace and remove the file meanwhile.
func OpenAny(path string) (*os.File, error) {
	h, err := openHandle(path, windows.GENERIC_READ, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}

// openHandle opens the file or directory at path, and lets other processes do anything with it.
func openHandle(path string, access, flags uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	flags |= windows.FILE_FLAG_BACKUP_SEMANTICS
	return windows.CreateFile(name, access, shareAll, nil, windows.OPEN_EXISTING, flags, 0)
}

// informationOf describes an open file. It is zero if it is unknown.
func informationOf(h windows.Handle) (info windows.ByHandleFileInformation) {
	if windows.GetFileInformationByHandle(h, &info) != nil {
		return windows.ByHandleFileInformation{}
	}
	return info
}

// Identify returns the identity of the file at path. It follows a link at path.
// There is no birth time, because archives contain it. They do not contain the time
// of the last change, which only programs that run as the owner can set. FAT has
// neither.
func Identify(path string, _ fs.FileInfo) Identity {
	h, err := openHandle(path, windows.FILE_READ_ATTRIBUTES, 0)
	if err != nil {
		return Identity{}
	}
	defer windows.CloseHandle(h)
	by := informationOf(h)
	i := Identity{Inode: uint64(by.FileIndexHigh)<<32 | uint64(by.FileIndexLow), Volume: uint64(by.VolumeSerialNumber)}
	var basic struct { // FILE_BASIC_INFO
		Created, Read, Written, Changed int64 // in units of 100 ns
		Attributes                      uint32
	}
	memory, size := (*byte)(unsafe.Pointer(&basic)), uint32(unsafe.Sizeof(basic))
	if i != (Identity{}) && windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, memory, size) == nil {
		i.Changed = basic.Changed
	}
	return i
}

// attributesOf returns nothing: a description of a file on Windows has neither its owner nor its
// access control list. There is no device either, because a volume mounted in a directory is a
// reparse point, which os.Root does not treat as a directory.
func attributesOf(fs.FileInfo) attributes { return attributes{uid: os.Geteuid(), gid: -1} }

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

type lockMode uint32

const shared, alone lockMode = 0, windows.LOCKFILE_EXCLUSIVE_LOCK

// tryLock locks the first byte of an open file, and returns false if another process has
// locked it.
func tryLock(f *os.File, how lockMode) (bool, error) { return lockBytes(f, how, 1, 0) }

// lockBytes locks the first bytes of a file, whose number has two halves.
func lockBytes(f *os.File, how lockMode, low, high uint32) (bool, error) {
	flags := uint32(how) | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, low, high, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// unlock unlocks and closes a file. After closing alone, Windows would unlock it later.
func unlock(f *os.File) {
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{})
	f.Close()
}

// bequeath keeps a lock until this process ends, which waits for the next program.
func (l *Lock) bequeath() error {
	bequeathed.Store(l, nil)
	return nil
}

var bequeathed sync.Map // of the locks, whose files are never closed

// linksOf returns the number of names of an open file, 0 if it is unknown.
func linksOf(f *os.File, _ fs.FileInfo) uint64 {
	return uint64(informationOf(windows.Handle(f.Fd())).NumberOfLinks)
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

// Resolve returns path without links and junctions. It must exist.
func Resolve(path string) (string, error) {
	f, err := OpenAny(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	name := make([]uint16, windows.MAX_LONG_PATH)
	n, err := windows.GetFinalPathNameByHandle(windows.Handle(f.Fd()), &name[0], uint32(len(name)), 0)
	if err != nil || int(n) > len(name) { // Wine knows no long paths here, and some drives have no such function
		return filepath.EvalSymlinks(path)
	}
	resolved := strings.TrimPrefix(windows.UTF16ToString(name[:n]), `\\?\`)
	if server, ok := strings.CutPrefix(resolved, `UNC\`); ok {
		resolved = `\\` + server
	}
	return resolved, nil
}

// UsageOf returns the disk usage of the file that info describes.
func UsageOf(path string, info fs.FileInfo) Usage {
	h, err := openHandle(path, 0, windows.FILE_FLAG_OPEN_REPARSE_POINT)
	if err != nil {
		return Usage{info.Size(), 1}
	}
	defer windows.CloseHandle(h)
	return Usage{info.Size(), max(uint64(informationOf(h).NumberOfLinks), 1)}
}

// TryWhole takes OpenTofu's lock through f if it is free.
func TryWhole(f *os.File) (bool, error) { return lockBytes(f, alone, 0, math.MaxUint32) }

// WholePID returns 0, because Windows does not report which process holds a lock.
func WholePID(*os.File) int { return 0 }
