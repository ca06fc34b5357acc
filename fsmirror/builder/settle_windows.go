package builder

import (
	"os"
	"syscall"
)

// Errors of media that are full, and of file systems that have no file so large.
var (
	noSpace  = []error{syscall.Errno(112), syscall.Errno(39)} // ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL
	tooLarge = []error{syscall.Errno(223)}                    // ERROR_FILE_TOO_LARGE
)

// syncMode is how a file is opened that is only to be flushed, which takes the
// right to write to it.
const syncMode = os.O_RDWR

// syncDir does nothing: Windows writes the names in a directory with the files.
func syncDir(string) error { return nil }
