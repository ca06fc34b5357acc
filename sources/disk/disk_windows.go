package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"

	"github.com/larder-cli/larder/sources"
)

const (
	openNow          = 0 // Windows does not wait when it opens a pipe
	noFollow         = 0
	removesOpenFiles = false

	syncFlag = os.O_RDWR // without which Windows flushes nothing
)

var (
	fullErrors     = []syscall.Errno{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}
	tooLargeErrors = []syscall.Errno{windows.ERROR_FILE_TOO_LARGE}
	notEmptyErrors = []syscall.Errno{windows.ERROR_DIR_NOT_EMPTY}
)

// deviceOf is left at 0: a volume that is mounted in a directory is a reparse
// point there, which is no directory to os.Root.
// Print is short for what a file looks like without being read: its size and the time of
// its last modification.
func Print(_ string, info fs.FileInfo) string {
	return fmt.Sprintf("%d@%d", info.Size(), info.ModTime().UnixNano())
}

func deviceOf(fs.FileInfo) uint64 { return 0 }

// renameAt tries for a while, as virus scanners keep new files open.
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

// cause is err without the paths.
func cause(err error) error {
	var linkErr *os.LinkError
	if errors.As(err, &linkErr) {
		return linkErr.Err
	}
	return err
}

// syncDir does nothing: Windows cannot flush directories, and NTFS keeps a
// journal.
func syncDir(*os.File) error { return nil }

// Writable returns why nothing can be created in the directory, nil if it can.
func (d *Dir) Writable() error {
	t, err := d.NewTemp("probe")
	if err != nil {
		return err
	}
	t.Discard()
	return nil
}

// checkPrivate leaves it to the directory, which is the user's profile: modes say
// nothing on Windows.
func checkPrivate(fs.FileInfo) error { return nil }

// IgnoresModes reports whether this user may write to files whatever their modes say.
func IgnoresModes() bool { return false }

// Seal does nothing: read-only files cannot be removed on Windows.
func (d *Dir) Seal(string) {}

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
