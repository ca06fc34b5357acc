package disk

import (
	"errors"
	"io/fs"
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

const shareAll = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

// unlink removes a file, a link or an empty directory, which has one element.
func (d *Dir) unlink(name string) error {
	return d.failed("remove", name, patiently(isBusy, func() error { return Cause(d.root.Remove(name)) }))
}

// renameAt replaces a file at newName, but no directory.
func renameAt(from *Dir, name string, to *Dir, newName string) error {
	const posix = windows.FILE_RENAME_POSIX_SEMANTICS | windows.FILE_RENAME_IGNORE_READONLY_ATTRIBUTE
	return patiently(isBusy, func() error {
		h, err := from.openToChange(name, windows.DELETE)
		if err != nil {
			return Cause(err)
		}
		defer windows.CloseHandle(h)
		err = from.putAt(h, name, to, newName, fileRenameInformationEx, windows.FILE_RENAME_REPLACE_IF_EXISTS|posix)
		if isUnknown(err) {
			err = from.putAt(h, name, to, newName, windows.FileRenameInformation, windows.FILE_RENAME_REPLACE_IF_EXISTS)
		}
		return Cause(err)
	})
}

func linkAt(from *Dir, name string, to *Dir, newName string) error {
	h, err := from.openToChange(name, windows.FILE_WRITE_ATTRIBUTES)
	if err != nil {
		return Cause(err)
	}
	defer windows.CloseHandle(h)
	return Cause(from.putAt(h, name, to, newName, fileLinkInformation, 0))
}

// Classes of NtSetInformationFile that the library doesn't have, as in Microsoft's ntifs.h.
const (
	fileLinkInformation     = 11
	fileRenameInformationEx = 65
)

// putAt gives an open file another name, which has one element.
func (d *Dir) putAt(h windows.Handle, name string, to *Dir, newName string, class, flags uint32) error {
	in, err := to.handle()
	if err != nil {
		return err
	}
	text, err := windows.UTF16FromString(newName)
	if err != nil {
		return err
	}
	var info struct { // FILE_RENAME_INFORMATION and FILE_LINK_INFORMATION
		flags  uint32
		root   windows.Handle
		length uint32 // in bytes
		name   [math.MaxUint8 + 1]uint16
	}
	if len(text) > len(info.name) {
		return &fs.PathError{Op: "rename", Path: to.Path(newName), Err: windows.ERROR_FILENAME_EXCED_RANGE}
	}
	n := copy(info.name[:], text) - 1 // without the zero at the end
	info.flags, info.root, info.length = flags, windows.Handle(in.Fd()), uint32(2*n)
	size := unsafe.Offsetof(info.name) + 2*uintptr(len(text))
	memory := (*byte)(unsafe.Pointer(&info))
	status := windows.NtSetInformationFile(h, new(windows.IO_STATUS_BLOCK), memory, uint32(size), class)
	return d.failed("rename", name, status)
}

// openToChange opens the file, link or directory called name, which has one element. It doesn't follow
// a link.
func (d *Dir) openToChange(name string, access uint32) (windows.Handle, error) {
	in, err := d.handle()
	if err != nil {
		return 0, err
	}
	text, err := windows.NewNTUnicodeString(name)
	if err != nil {
		return 0, err
	}
	at := windows.OBJECT_ATTRIBUTES{
		RootDirectory: windows.Handle(in.Fd()), ObjectName: text, Attributes: windows.OBJ_CASE_INSENSITIVE,
	}
	at.Length = uint32(unsafe.Sizeof(at))
	var h windows.Handle
	const options = windows.FILE_OPEN_REPARSE_POINT | windows.FILE_OPEN_FOR_BACKUP_INTENT |
		windows.FILE_SYNCHRONOUS_IO_NONALERT
	status := windows.NtCreateFile(&h, access|windows.SYNCHRONIZE, &at, new(windows.IO_STATUS_BLOCK), nil, 0, shareAll,
		windows.FILE_OPEN, options, 0, 0)
	return h, d.failed("open", name, status)
}

// failed adds the path to the error of a function, which may be one of the NT API.
func (d *Dir) failed(op, name string, status error) error {
	if s, ok := errors.AsType[windows.NTStatus](status); ok {
		status = s.Errno()
	}
	if status == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: d.Path(name), Err: status}
}

func isBusy(err error) bool {
	return isAny(err, []syscall.Errno{
		windows.ERROR_SHARING_VIOLATION, windows.ERROR_ACCESS_DENIED, windows.ERROR_DELETE_PENDING,
	})
}

// isUnknown reports whether err means that the system or file system has no such function.
func isUnknown(err error) bool {
	return isAny(err, []syscall.Errno{
		windows.ERROR_INVALID_FUNCTION, windows.ERROR_INVALID_PARAMETER, windows.ERROR_NOT_SUPPORTED,
	})
}
