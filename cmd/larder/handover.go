package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A handover is a command line that replaces larder when its own work is done. The command that
// returns it as an error has succeeded.
type handover struct {
	program string   // path
	line    []string // words, the first one is the name of the program
	dir     string   // working directory, absolute
	environ []string
}

// Error implements error.
func (h *handover) Error() string { return "continue with " + h.program }

// run replaces this process by the program. It returns only if that fails. Where a process can't
// be replaced, it runs the program and returns its exit status.
func (h *handover) run() (status int, err error) {
	if now, err := os.Getwd(); err != nil || now != h.dir {
		if err := os.Chdir(h.dir); err != nil {
			return exitFailed, err
		}
	}
	return replaceProcess(h.program, h.line, h.environ)
}

// findProgram returns the path of the program to run.
func (s *session) findProgram(c *cli.Context, name string) (path string, err error) {
	if c.Bool(asShim) {
		return s.findNext(name, c.String(enginePath))
	}
	if filepath.Base(name) != name {
		name = absolute(s.dir, name)
	}
	if path, err = lookPath(name); err != nil {
		if near := sources.Nearest(name, []string{"terraform", "tofu", "terragrunt"}); near != "" && near != name {
			return "", sources.WithHint(err, "did you mean %q?", near)
		}
		return "", sources.WithHint(err, "install it, or write the path of the program")
	}
	if filepath.Base(name) == name && s.machine.EngineOf(name) != "" { // it may run this command again
		return s.nextProgram(name, "", func(string) bool { return true })
	}
	return path, nil
}

// lookPath is [exec.LookPath], with an error that names the program once.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if named, ok := errors.AsType[*exec.Error](err); ok { // whose text has the name too
		err = named.Err
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, disk.Cause(err))
	}
	return path, nil
}

// findNext returns the program that a shim runs, and marks the environment. If fixed isn't empty, it
// is the path of that program.
func (s *session) findNext(name, fixed string) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	return s.nextProgram(name, fixed, func(path string) bool { return !isSame(path, own) })
}

// nextProgram returns the next program of a name that this process hasn't run yet, and marks the
// environment.
func (s *session) nextProgram(name, fixed string, wanted func(path string) bool) (string, error) {
	path, environ, err := s.machine.NextProgram(name, fixed, os.Getpid(), func(path string) bool {
		_, err := exec.LookPath(path) // fails if the file is not executable
		return err == nil && wanted(path)
	})
	if err != nil {
		return "", err
	}
	s.machine.Environ = environ
	return path, nil
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
		args = append([]string{"larder", execName, "--" + asShim, "--", strings.TrimSuffix(filepath.Base(args[0]), ".exe")}, args[1:]...)
	case len(args) > 2 && args[1] == execName && args[2] == "--"+asShim:
	default:
		return args
	}
	flags, _ := cliconfig.This().ShimFlags() // exec reports the error
	return slices.Concat(args[:2], flags, args[2:])
}

// shimLevels are the values of LARDER_SHIM_OUTPUT, the default first.
var shimLevels = []struct {
	name  string
	level ui.Level
}{{"warnings", ui.Warnings}, {"normal", ui.Normal}, {"verbose", ui.Verbose}}

// limitShim limits the output of a shim to warnings and errors, unless the environment says
// otherwise: programs that run an engine show what it prints, some of them as errors.
func (s *session) limitShim() error {
	value := s.machine.ShimOutput()
	if value != "" {
		if err := oneOf(cliconfig.ShimOutput, value, shimOutputs()); err != nil {
			return err
		}
	}
	for _, l := range shimLevels {
		if l.name == value || value == "" && s.out.Level == ui.Normal { // neither LARDER_QUIET nor LARDER_VERBOSE
			s.out.Level = l.level
			break
		}
	}
	if s.out.Level < ui.Normal {
		s.out.Stdout = io.Discard
	}
	return nil
}

// shimOutputs returns the values of LARDER_SHIM_OUTPUT.
func shimOutputs() (names []string) {
	for _, l := range shimLevels {
		names = append(names, l.name)
	}
	return names
}

// isSame reports whether two paths lead to the same file.
func isSame(a, b string) bool {
	first, err := os.Stat(a)
	second, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(first, second)
}
