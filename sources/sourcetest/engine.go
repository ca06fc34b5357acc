package sourcetest

import (
	"os/exec"
	"testing"

	"github.com/larder-cli/larder/sources"
)

// Engines are all engines to compare with.
var Engines = []sources.Engine{sources.Terraform, sources.OpenTofu}

// OnPath returns the path of a program. If it isn't on PATH, the test is skipped.
func OnPath(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s on PATH", program)
	}
	return path
}

// EachEngine runs a test with each engine on PATH that is drawn.
func EachEngine(t *testing.T, test func(t *testing.T, e sources.Engine)) {
	t.Helper()
	for _, e := range Engines {
		if DrawsEngine(t, t.Name(), e) {
			t.Run(string(e), func(t *testing.T) {
				OnPath(t, string(e))
				test(t, e)
			})
		}
	}
}

// DrawsEngine reports whether a test is to make a trial with an engine: one of six, because engines take a second to
// start, or both of those that -run names.
func DrawsEngine(t testing.TB, trial string, e sources.Engine) bool {
	t.Helper()
	return Named() || Draws(t, trial+string(e), 6)
}
