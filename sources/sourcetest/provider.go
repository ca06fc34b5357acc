package sourcetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Provider returns the path of an executable that engines can run as a
// provider, for tests that run plan or apply. It can be any provider: copied to
// a name such as terraform-provider-widget_v1.0.0, it has the resource and the
// data source widget_thing, each with a text and an id. The file is in the Go
// build cache and must not be changed.
func Provider(t TB) string {
	t.Helper()
	path, err := buildProvider()
	if err != nil {
		t.Fatalf("building the provider: %v", err)
	}
	return path
}

var buildProvider = sync.OnceValues(func() (string, error) { return goTool("testdata/provider", "provider") })

// Larder returns the path of the command larder, for tests that need more than the
// test binary: a file of its own, or the real clock.
func Larder(t TB) string {
	t.Helper()
	built, err := buildLarder()
	if err != nil {
		t.Fatalf("building larder: %v", err)
	}
	larder := filepath.Join(t.TempDir(), "larder")
	executable, err := os.ReadFile(built)
	Check(t, err)
	WriteExecutable(t, larder, executable)
	return larder
}

// WriteExecutable writes a file that the test will run. Meanwhile no process is started: it would have the file open for writing
// until it runs its own program, and the system doesn't run such files ("text file busy").
func WriteExecutable(t TB, path string, contents []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, contents, 0o755)
	syscall.ForkLock.RUnlock()
	Check(t, err)
}

var buildLarder = sync.OnceValues(func() (string, error) { return goTool("", "larder") })

// goTool builds a tool of the module in a directory of this repository, and returns
// its path. The build cache keeps the executables of tools: there are no files to
// remove, and later runs do not link them again. They are built as go test builds
// packages, which the build cache has.
func goTool(dir, name string) (string, error) {
	module, err := goCommand("", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	return goCommand(filepath.Join(filepath.Dir(module), filepath.FromSlash(dir)), "tool", "-n", name)
}

// goCommand returns the output of the go command in dir, without the last line
// break.
func goCommand(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(string(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}
