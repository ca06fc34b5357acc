package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/work"
)

// A handover is a program that replaces larder when its own work is done. The command that
// returns it as an error has succeeded.
type handover struct{ work.Program }

// Error implements error.
func (h *handover) Error() string { return "continue with " + h.Path }

// run replaces this process by the program. It returns only if that fails. Where a process can't
// be replaced, it runs the program and returns its exit status.
func (h *handover) run() (status int, err error) {
	if now, err := os.Getwd(); err != nil || now != h.Dir {
		if err := os.Chdir(h.Dir); err != nil {
			return exitFailed, err
		}
	}
	status, err = cliconfig.Become(h.Program.Path, h.Program.Line, h.Program.Environ, os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		return exitFailed, err
	}
	return status, nil
}

// asShim is the flag with which larder runs itself under the name of an engine, and enginePath the
// one for the path of that engine.
const asShim, enginePath = "as-shim", "engine-path"

// shimLine returns the command line of larder. Under the name of an engine, larder is exec with
// that engine. A shim, also one that is a script, takes the flags of an outer larder exec.
func shimLine(args []string) []string {
	system := cliconfig.Machine{GOOS: runtime.GOOS} // its environment isn't required, and takes time to read
	switch {
	case len(args) > 0 && system.EngineOf(args[0]) != "":
		args = append([]string{"larder", "exec", "--" + asShim, "--", strings.TrimSuffix(filepath.Base(args[0]), ".exe")}, args[1:]...)
	case len(args) > 2 && args[1] == "exec" && args[2] == "--"+asShim:
	default:
		return args
	}
	flags, _ := cliconfig.This().ShimFlags() // exec reports the error
	return slices.Concat(args[:2], flags, args[2:])
}
