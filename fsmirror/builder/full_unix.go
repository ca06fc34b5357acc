//go:build unix

package builder

import "syscall"

// Errors of media that are full, and of file systems that have no file so large.
var (
	noSpace  = []error{syscall.ENOSPC, syscall.EDQUOT}
	tooLarge = []error{syscall.EFBIG}
)
