package sourcetest

import (
	"flag"
	"fmt"
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

// EngineSample returns the engines to run a trial with: all, or one of them, which is
// installed if any is. With -run, it is all: a person may have named the test of one engine.
func EngineSample(t testing.TB, trial string) []sources.Engine {
	t.Helper()
	if Thorough() || flag.Lookup("test.run").Value.String() != "" {
		return Engines
	}
	Count(t, 1, len(Engines)-1)
	drawn := int(hash(trial+fmt.Sprint(Seed())) % uint64(len(Engines)))
	if _, err := exec.LookPath(string(Engines[drawn])); err != nil {
		drawn = (drawn + 1) % len(Engines)
	}
	return Engines[drawn:][:1]
}

// EachEngine runs a test with each engine, or with [EngineSample]. If an engine is
// missing, its test is skipped or fails, as in [Judge].
func EachEngine(t *testing.T, test func(t *testing.T, e sources.Engine)) {
	t.Helper()
	for _, e := range EngineSample(t, t.Name()) {
		t.Run(string(e), func(t *testing.T) {
			Judge(t, e)
			test(t, e)
		})
	}
}
