package cliconfig

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// lastWords is how long processes that a program has left behind may keep its output open.
const lastWords = time.Second

// Run runs a program, passes signals on to it, and returns its exit status.
func Run(program string, line, environ []string, in *os.File, out, errs io.Writer) (status int, err error) {
	own := strconv.Itoa(os.Getpid()) + "\n"
	for i, assignment := range environ {
		if seen, ok := strings.CutPrefix(assignment, shimsRun+"="+own); ok {
			environ[i] = shimsRun + "=-" + own + seen
		}
	}
	cmd := &exec.Cmd{Path: program, Args: line, Env: environ, Stdin: in, Stdout: out, Stderr: errs, WaitDelay: lastWords}
	if err = cmd.Start(); err == nil {
		done := passSignals(cmd.Process, in)
		err = cmd.Wait()
		done()
	}
	if cmd.ProcessState == nil {
		return 0, fmt.Errorf("cannot run %s: %w", program, err)
	}
	return exitStatus(cmd.ProcessState), nil
}

// repeated is set in a second run of a command line.
const repeated = "LARDER_REPEATED"

// Repeated reports whether this is a second run of the same command line.
func (m Machine) Repeated() bool { return m.getenv(repeated) != "" }

// Repeat runs the command line of this process again, in the directory in which it started, as [Become] does.
func Repeat(dir string, in, out, errs *os.File) (status int, err error) {
	program, err := os.Executable()
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		return 1, err
	}
	return Become(program, os.Args, append(os.Environ(), repeated+"=1"), in, out, errs)
}
