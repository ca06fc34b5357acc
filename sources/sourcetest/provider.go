package sourcetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// buildProvider builds testdata/provider. The executable is a tool of its
// module, so the build cache keeps it: there are no files to remove, and later
// runs do not link it again.
var buildProvider = sync.OnceValues(func() (string, error) {
	module, err := goCommand("", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	return goCommand(filepath.Join(filepath.Dir(module), "testdata", "provider"), "tool", "-n", "provider")
})

// Larder builds the command larder and returns its path, for tests that need more
// than the test binary: a file of its own, or the real clock.
func Larder(t TB) string {
	t.Helper()
	larder := filepath.Join(t.TempDir(), "larder")
	if _, err := goCommand("", "build", "-o", larder, "github.com/larder-cli/larder/cmd/larder"); err != nil {
		t.Fatalf("building larder: %v", err)
	}
	return larder
}

// goCommand returns the output of the go command in dir, without the last line
// break.
func goCommand(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(string(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}
