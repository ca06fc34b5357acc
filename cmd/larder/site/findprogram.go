package site

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Program is a command line to run, when what it requires is installed.
type Program struct {
	Path    string
	Line    []string // words, the first one is the name of the program
	Dir     string   // working directory, absolute
	Environ []string

	// Failed explains why the program has failed, from the end of what it wrote to standard error or, if it writes JSON,
	// to standard output. Or it reports that Larder can succeed if it runs its own command line again. If Failed is nil,
	// the program can replace this process.
	Failed func(output string) (again bool, err error)
	JSON   bool
}

// LookPath is [exec.LookPath], with an error that names the program once.
func LookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if named, ok := errors.AsType[*exec.Error](err); ok { // whose text has the name too
		err = named.Err
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, disk.Cause(err))
	}
	return path, nil
}

// Executables returns the programs of a name on PATH that the system can start, in order.
func (s *Site) Executables(name string) []string {
	return slices.DeleteFunc(s.Machine.Programs(name), func(path string) bool {
		_, err := exec.LookPath(path) // fails if the file is not executable
		return err != nil
	})
}

// FindNext returns the program that a shim runs, and marks the environment. If fixed isn't empty, it
// is the path of that program.
func (s *Site) FindNext(name, fixed string) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	return s.NextProgram(name, fixed, func(path string) bool { return !IsLarder(path, own) })
}

// NextProgram returns the next program of a name that this process hasn't run yet, and marks the
// environment.
func (s *Site) NextProgram(name, fixed string, wanted func(path string) bool) (string, error) {
	path, environ, err := programs.Next(s.Machine, name, fixed, os.Getpid(), func(path string) bool {
		_, err := exec.LookPath(path) // fails if the file is not executable
		return err == nil && wanted(path)
	})
	if err != nil {
		return "", err
	}
	s.Machine.Environ = environ
	return path, nil
}

// shimLevels are the values of LARDER_SHIM_OUTPUT. The default is that of no value.
var shimLevels = map[string]report.Level{
	"": report.Warnings, "warnings": report.Warnings, "normal": report.Normal, "verbose": report.Verbose,
}

// LimitShim limits the output of a shim to warnings and errors, unless the environment says
// otherwise: programs that run an engine show what it prints, some of them as errors.
func (s *Site) LimitShim() error {
	value := s.Machine.ShimOutput()
	level, known := shimLevels[value]
	if !known {
		err := fmt.Errorf("%s is %s, not %q", cliconfig.ShimOutput, ui.List("or", ShimOutputs()), value)
		return report.Usage(sources.DidYouMean(err, value, ShimOutputs(), ""))
	}
	if value != "" || s.Output.Level == report.Normal { // neither LARDER_QUIET nor LARDER_VERBOSE
		s.Output.Level = level
	}
	if s.Output.Level < report.Normal {
		s.Output.Stdout = io.Discard
	}
	return nil
}

// ShimOutputs returns the values of LARDER_SHIM_OUTPUT.
func ShimOutputs() []string { return []string{"warnings", "normal", "verbose"} }

// IsLarder reports whether the program at path is the one at own, or a copy of any version, as shims are where
// there are no links.
func IsLarder(path, own string) bool {
	return IsSame(path, own) || IsCopyOfLarder(path)
}

// IsSame reports whether two paths lead to the same file.
func IsSame(a, b string) bool {
	first, err := os.Stat(a)
	second, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(first, second)
}
