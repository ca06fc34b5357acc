package sourcetest_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestFailAt checks that each call on the file fails once, and that no call on
// another file fails.
func TestFailAt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, []byte("text"), 0o644))
	for step := 1; ; step++ {
		var out, problem bytes.Buffer
		cmd := exec.Command("cat", file)
		cmd.Stdout, cmd.Stderr = &out, &problem
		failed, err := sourcetest.FailAt(cmd, step, syscall.EIO, filepath.Dir(file))
		if errors.Is(err, syscall.EPERM) {
			t.Skip("processes may not be traced here")
		}
		check(t, err)
		if failed.Call == "" {
			sourcetest.Require(t, step >= 3 && failed.Status == 0 && out.String() == "text",
				"step %d: %+v, %s, %s", step, failed, &out, &problem)
			return
		}
		if failed.Path != file || failed.Status != 1 || !strings.Contains(problem.String(), "Input/output error") {
			t.Errorf("step %d: %+v, %s", step, failed, &problem)
		}
	}
}
