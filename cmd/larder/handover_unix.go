//go:build !windows

package main

import (
	"fmt"
	"syscall"
)

// replaceProcess replaces this process, which keeps its ID, its terminal and its open files.
func replaceProcess(program string, line, environ []string) (status int, err error) {
	err = syscall.Exec(program, line, environ)
	return exitFailed, fmt.Errorf("cannot run %s: %w", program, err)
}
