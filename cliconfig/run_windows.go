package cliconfig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
)

// Become runs a program and returns its exit status. Windows sends an interrupt to both processes, so this one
// ignores it.
func Become(program string, line, environ []string, in, out, errs *os.File) (status int, err error) {
	signal.Ignore(os.Interrupt)
	cmd := &exec.Cmd{Path: program, Args: line, Env: environ, Stdin: in, Stdout: out, Stderr: errs}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot run %s: %w", program, err)
	}
	return 0, nil
}
