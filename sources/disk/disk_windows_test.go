package disk_test

import (
	"syscall"

	"golang.org/x/sys/windows"
)

var fullDiskErrors = map[error]bool{
	windows.ERROR_DISK_FULL: true, windows.ERROR_HANDLE_DISK_FULL: true, windows.ERROR_FILE_TOO_LARGE: false,
	syscall.ERROR_ACCESS_DENIED: false,
}
