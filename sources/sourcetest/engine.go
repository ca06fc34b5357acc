package sourcetest

import (
	"fmt"
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

// EachEngine runs a test with each engine on PATH, or with one of them, if it is a trial among many. A sample makes a third
// of these trials, because engines take a second to start. With -run, it is both, because that may select the test of one.
func EachEngine(t *testing.T, test func(t *testing.T, e sources.Engine)) {
	t.Helper()
	for _, e := range EngineSample(t, t.Name()) {
		t.Run(string(e), func(t *testing.T) {
			OnPath(t, string(e))
			test(t, e)
		})
	}
}

// EngineSample returns the engines to run a trial with, as [EachEngine] does.
func EngineSample(t testing.TB, trial string) []sources.Engine {
	t.Helper()
	if Named() {
		return Engines
	}
	drawn := hash(trial+fmt.Sprint(Seed())) % 2
	if p := chosen(); Thorough() {
		if p.of == 1 {
			return Engines
		}
		drawn = (hash(trial) + p.number) % 2 // two parts in a row make both trials
	}
	if _, err := exec.LookPath(string(Engines[drawn])); err != nil {
		drawn = 1 - drawn
	}
	if Thorough() {
		Count(t, 1, 0)
	} else if !Draws(t, trial, 3) {
		return nil
	}
	Count(t, 0, 1) // with the other engine
	return Engines[drawn:][:1]
}
