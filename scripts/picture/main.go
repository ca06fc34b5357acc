//go:build unix

// Command picture draws docs/first-screen.svg, the picture in the README, from a real run
// of larder on testdata/quickstart:
//
//	go run ./scripts/picture
//
// Run it in the root of the repository after a change to the output of larder install. The
// test of this package fails if the picture shows something else than a run does, except
// for times.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources/sourcetest"
)

const picture = "docs/first-screen.svg"

// shown are the commands in the picture.
var shown = []string{"larder install", "larder install"}

func main() {
	s := &sourcetest.Script{Name: "picture"}
	defer s.End()
	session, err := perform(".", s.TempDir())
	if err == nil {
		err = os.WriteFile(picture, []byte(draw(session)), 0o644)
	}
	if err != nil {
		s.Fatalf("%v", err)
	}
}

// perform runs the commands in a copy of the quick start below dir, and returns what a
// person at a terminal sees, colours included.
func perform(repo, dir string) (session string, err error) {
	program := filepath.Join(dir, "bin", "larder")
	build := exec.Command("go", "build", "-o", program, "./cmd/larder")
	build.Dir = repo
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building larder: %w\n%s", err, out)
	}
	root := filepath.Join(dir, "quickstart")
	quickstart := os.DirFS(filepath.Join(repo, "testdata", "quickstart"))
	if err := os.CopyFS(root, quickstart); err != nil {
		return "", err
	}
	// Someone may have tried it there.
	err = errors.Join(os.RemoveAll(filepath.Join(root, ".terraform")), os.RemoveAll(filepath.Join(root, ".terraform.lock.hcl")))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, command := range shown {
		fmt.Fprintf(&b, "\x1b[2m$\x1b[0m \x1b[1m%s\x1b[0m\n", command)
		cmd := exec.Command("sh", "-c", "exec 2>&1; "+command)
		cmd.Dir = root
		cmd.Env = []string{"HOME=" + dir, "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "CLICOLOR_FORCE=1"}
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("%s: %w\n%s", command, err, out)
		}
		b.Write(out)
	}
	return b.String(), nil
}
