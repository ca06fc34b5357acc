//go:build unix

package cliconfig

import (
	"fmt"
	"os"
	"syscall"
)

// Become replaces this process by a program, with the same process ID, terminal and open files. It returns only if
// that fails. On Windows, where a process can't be replaced, it runs the program with these three files, and returns
// its exit status.
func Become(program string, line, environ []string, _, _, _ *os.File) (status int, err error) {
	return 0, fmt.Errorf("cannot run %s: %w", program, syscall.Exec(program, line, environ))
}
