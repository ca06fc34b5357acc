//go:build unix

package programs

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Become replaces this process by a program, with the same process ID, terminal and open files. It returns only if
// that fails. On Windows, where a process can't be replaced, it runs the program with these three files, and returns
// its exit status.
func Become(program string, line, environ []string, _, _, _ *os.File) (status int, err error) {
	return 0, fmt.Errorf("cannot run %s: %w", program, syscall.Exec(program, line, environ))
}

// passSignals passes signals on to a program until done is called, except those that a terminal sends to both.
func passSignals(to *os.Process, terminal *os.File) (done func()) {
	caught := make(chan os.Signal, 8)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	go func() {
		for s := range caught {
			group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
			typed := err == nil && group == unix.Getpgrp() && s != syscall.SIGTERM
			if !typed {
				_ = to.Signal(s)
			}
		}
	}()
	return func() { signal.Stop(caught); close(caught) }
}

// exitStatus returns the status of a program, and that of a shell if a signal has ended it.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
