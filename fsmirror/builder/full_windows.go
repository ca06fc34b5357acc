package builder

import "syscall"

// Errors of media that are full, and of file systems that have no file so large.
var (
	noSpace  = []error{syscall.Errno(112), syscall.Errno(39)} // ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL
	tooLarge = []error{syscall.Errno(223)}                    // ERROR_FILE_TOO_LARGE
)
