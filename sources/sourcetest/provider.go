package sourcetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Provider returns the path of an executable that engines can run as a
// provider, for tests that run plan or apply. It can be any provider: copied to
// a name such as terraform-provider-widget_v1.0.0, it has the resource and the
// data source widget_thing, each with a text and an id. The file is in the Go
// build cache and must not be changed.
func Provider(t testing.TB) string {
	t.Helper()
	path, err := buildProvider()
	Check(t, err)
	return path
}

// Larder returns the path of the command larder, for tests that need more than the
// test binary: a file of its own, or the real clock.
func Larder(t testing.TB) string {
	t.Helper()
	built, err := buildLarder()
	Check(t, err)
	return copied(t, built)
}

// InstalledLarder returns the path of the command larder as releases contain it, for measurements. Other flags than
// those of tests take minutes to build.
func InstalledLarder(t testing.TB) string {
	t.Helper()
	built := filepath.Join(t.TempDir(), "larder")
	cmd := exec.Command("scripts/build", built)
	cmd.Dir = filepath.Dir(string(must(exec.Command("go", "env", "GOMOD").Output())))
	out, err := cmd.CombinedOutput()
	Require(t, err == nil, "scripts/build: %v\n%s", err, out)
	return copied(t, built)
}

// copied returns a copy of an executable. It starts as an installed one: Linux has files that the linker wrote in small
// pages in memory, and maps those more slowly.
func copied(t testing.TB, built string) string {
	larder := filepath.Join(t.TempDir(), "larder")
	WriteExecutable(t, larder, ReadFile(t, built))
	return larder
}

var (
	buildProvider = sync.OnceValues(func() (string, error) { return goTool("testdata/provider", "provider") })
	buildLarder   = sync.OnceValues(func() (string, error) { return goTool("", "larder") })
)

// WriteExecutable writes a file that the test will run. Meanwhile no process is started: it would have the file open
// for writing until it runs its own program, and the system doesn't run such files ("text file busy").
func WriteExecutable(t testing.TB, path string, contents []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, contents, 0o755)
	syscall.ForkLock.RUnlock()
	Check(t, err)
}

// goTool builds a tool of the module in a directory of this repository, and returns
// its path. The build cache keeps the executables of tools: there are no files to
// remove, and later runs do not link them again. They are built as go test builds
// packages, which the build cache has.
func goTool(dir, name string) (string, error) {
	module := must(exec.Command("go", "env", "GOMOD").Output())
	cmd := exec.Command("go", "tool", "-n", name)
	cmd.Dir = filepath.Join(filepath.Dir(string(module)), filepath.FromSlash(dir))
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("building %s: %s", name, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
