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
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

const picture = "docs/first-screen.svg"

// shown are the commands in the picture.
var shown = []string{"larder install", "larder install"}

func main() {
	s := &sourcetest.Script{Program: "picture"}
	defer s.End()
	sourcetest.Check(s, os.WriteFile(picture, []byte(draw(perform(s, "."))), 0o644))
}

// perform runs the commands in a copy of the quick start, and returns what a person at a
// terminal sees, colors included.
func perform(t testing.TB, repo string) (session string) {
	program, home := sourcetest.Larder(t), t.TempDir()
	root := filepath.Join(home, "quickstart")
	sourcetest.Check(t, os.CopyFS(root, os.DirFS(filepath.Join(repo, "testdata", "quickstart"))))
	for _, tried := range []string{".terraform", ".terraform.lock.hcl"} { // someone may have tried it there
		sourcetest.Check(t, os.RemoveAll(filepath.Join(root, tried)))
	}
	for _, command := range shown {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = root
		cmd.Env = []string{"HOME=" + home, "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "CLICOLOR_FORCE=1"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		session += fmt.Sprintf("\x1b[2m$\x1b[0m \x1b[1m%s\x1b[0m\n%s", command, out)
	}
	return session
}
