package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
)

// replaceProcess runs a program and waits for it. Windows sends an interrupt to both processes, so
// this one ignores it.
func replaceProcess(program string, line, environ []string) (status int, err error) {
	signal.Ignore(os.Interrupt)
	cmd := &exec.Cmd{Path: program, Args: line, Env: environ, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return exitFailed, fmt.Errorf("cannot run %s: %w", program, err)
	}
	return exitDone, nil
}
