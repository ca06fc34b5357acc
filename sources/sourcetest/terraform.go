package sourcetest

import (
	"os"
	"os/exec"
	"testing"
)

// Terraform is the path of the terraform on this machine, the judge of what we
// are compatible with. Without one the test is skipped, or fails where CI
// promises one.
func Terraform(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("terraform")
	if err == nil {
		return path
	}
	Require(t, os.Getenv("CI") == "", "no terraform to compare with: %v", err)
	t.Skipf("no terraform to compare with: %v", err)
	return ""
}
