package sourcetest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/larder-cli/larder/sources"
)

// Judge is the path of the engine e on this machine, the judge of what we are compatible
// with. Without it the test is skipped, or fails where CI promises one.
func Judge(t testing.TB, e sources.Engine) string {
	t.Helper()
	path, err := exec.LookPath(string(e))
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("no %s to compare with: %v", e, err)
	default:
		t.Skipf("no %s to compare with: %v", e, err)
	}
	return ""
}

// Engines are the judges.
var Engines = []sources.Engine{sources.Terraform, sources.OpenTofu}

// EachEngine runs a test with each engine as its judge, which is skipped or fails as
// [Judge] has it.
func EachEngine(t *testing.T, test func(t *testing.T, e sources.Engine)) {
	t.Helper()
	for _, e := range Engines {
		t.Run(string(e), func(t *testing.T) {
			Judge(t, e)
			test(t, e)
		})
	}
}
