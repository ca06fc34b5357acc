package sourcetest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/larder-cli/larder/sources"
)

// Judge returns the path of the engine e on this machine, to compare Larder
// with. If there is none, the test is skipped, or fails if CI is set.
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

// Engines are all engines to compare with.
var Engines = []sources.Engine{sources.Terraform, sources.OpenTofu}

// EachEngine runs a test with each engine. If an engine is missing, its test is
// skipped or fails, as in [Judge].
func EachEngine(t *testing.T, test func(t *testing.T, e sources.Engine)) {
	t.Helper()
	for _, e := range Engines {
		t.Run(string(e), func(t *testing.T) {
			Judge(t, e)
			test(t, e)
		})
	}
}
