package programs

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/cliconfig"
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

// repeated is set in a second run of a command line, to the process that repeats it. Programs that this run starts
// inherit the variable, so it has no meaning in other processes.
const repeated = "LARDER_REPEATED"

// Repeated reports whether this is a second run of the same command line: in the same process, or in a child of it
// where a process can't be replaced.
func Repeated(m cliconfig.Machine) bool {
	by := m.Getenv(repeated)
	return by == strconv.Itoa(os.Getpid()) || m.GOOS == "windows" && by == strconv.Itoa(os.Getppid())
}

// Repeat runs the command line of this process again, in the directory in which it started, as [Become] does.
func Repeat(dir string, in, out, errs *os.File) (status int, err error) {
	program, err := os.Executable()
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		return 1, err
	}
	environ := cliconfig.This().With(map[string]string{repeated: strconv.Itoa(os.Getpid())})
	return Become(program, os.Args, environ, in, out, errs)
}
