package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/cmd/larder/site"
)

// A handover is a program that replaces larder when its own work is done. The command that
// returns it as an error has succeeded.
type handover struct{ site.Program }

// Error implements error.
func (h *handover) Error() string { return "continue with " + h.Path }

// run replaces this process by the program. It returns only if that fails. Where a process can't
// be replaced, it runs the program and returns its exit status.
func (h *handover) run() (status int, err error) {
	now, err := os.Getwd()
	if err != nil || now != h.Dir {
		if err := os.Chdir(h.Dir); err != nil {
			return exitFailed, err
		}
	}
	if h.Failed == nil {
		status, err = programs.Become(h.Path, h.Line, h.Environ, os.Stdin, os.Stdout, os.Stderr)
	} else {
		stdout, stderr, last := io.Writer(os.Stdout), io.Writer(os.Stderr), &lastOutput{}
		if h.JSON {
			stdout = io.MultiWriter(stdout, last)
		} else {
			stderr = io.MultiWriter(stderr, last)
		}
		if status, err = programs.Run(h.Path, h.Line, h.Environ, os.Stdin, stdout, stderr); err == nil && status != exitDone {
			var again bool
			if again, err = h.Failed(string(last.text)); again {
				return programs.Repeat(now, os.Stdin, os.Stdout, os.Stderr)
			} else if err != nil {
				return status, err
			}
		}
	}
	if err != nil {
		return exitFailed, err
	}
	return status, nil
}

// A lastOutput keeps the last bytes that are written to it.
type lastOutput struct{ text []byte }

// maxLastOutput is more than an engine writes about a missing provider.
const maxLastOutput = 64 << 10

// Write implements [io.Writer].
func (o *lastOutput) Write(p []byte) (int, error) {
	o.text = append(o.text, p...)
	o.text = append(o.text[:0], o.text[max(0, len(o.text)-maxLastOutput):]...)
	return len(p), nil
}

// asShim is the flag with which larder runs itself under the name of an engine, and enginePath the
// one for the path of that engine.
const asShim, enginePath = "as-shim", "engine-path"

// shimLine returns the command line of larder. Under the name of an engine, larder is exec with
// that engine. A shim, also one that is a script, takes the flags of an outer larder exec.
func shimLine(args []string) []string {
	system := cliconfig.Machine{GOOS: runtime.GOOS} // its environment isn't required, and takes time to read
	switch {
	case len(args) > 0 && programs.EngineOf(system, args[0]) != "":
		engine := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
		args = append([]string{"larder", "exec", "--" + asShim, "--", engine}, args[1:]...)
	case len(args) > 2 && args[1] == "exec" && args[2] == "--"+asShim:
	default:
		return args
	}
	flags, _ := programs.ShimFlags(cliconfig.This()) // exec reports the error
	return slices.Concat(args[:2], flags, args[2:])
}
