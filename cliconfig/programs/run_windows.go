package programs

import (
	"os"
	"os/signal"
)

// Become runs a program with these three files, and returns its exit status: a process can't be replaced.
func Become(program string, line, environ []string, in, out, errs *os.File) (status int, err error) {
	return Run(program, line, environ, in, out, errs)
}

// passSignals ignores interrupts: Windows sends them to the program too.
func passSignals(*os.Process, *os.File) (done func()) {
	signal.Ignore(os.Interrupt)
	return func() {}
}

func exitStatus(state *os.ProcessState) int { return state.ExitCode() }
