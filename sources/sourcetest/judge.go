package sourcetest

import (
	"flag"
	"fmt"
	"os/exec"
	"testing"

	"github.com/larder-cli/larder/sources"
)

// A Program is a release of an engine to compare Larder with.
type Program struct {
	Engine  sources.Engine
	Name    string // on PATH
	Version string
	Share   int // random comparisons make one of so many trials with it
}

// Programs are the releases that Larder is compared with: first one of each engine, then further ones.
// Documents name their versions.
var Programs = []Program{
	{sources.Terraform, "terraform", "1.11.4", 1},
	{sources.OpenTofu, "tofu", "1.12.6", 1},
	{sources.Terraform, "terraform-1.15", "1.15.9", 3},
}

// Engines are all engines to compare with.
var Engines = []sources.Engine{sources.Terraform, sources.OpenTofu}

// Path returns the path of the program on this machine. If it is missing, the test is skipped.
func (p Program) Path(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath(p.Name)
	if err != nil {
		t.Skipf("no %s to compare with: %v", p.Name, err)
	}
	return path
}

// Judge returns the path of the engine e on this machine, as [Program.Path] does.
func Judge(t testing.TB, e sources.Engine) string {
	t.Helper()
	return Program{Name: string(e)}.Path(t)
}

// ProgramSample returns the programs to run a trial with: all, or one of them, which is
// installed if any is. With -run, it is all: a person may have named the test of one engine.
func ProgramSample(t testing.TB, trial string) []Program {
	t.Helper()
	return sampleOf(t, Programs, trial)
}

func sampleOf(t testing.TB, all []Program, trial string) []Program {
	t.Helper()
	if flag.Lookup("test.run").Value.String() != "" {
		return all
	}
	if p, _ := chosen(); Thorough() {
		var some []Program
		for _, program := range all {
			if p.has(hash(trial + program.Name)) {
				some = append(some, program)
			}
		}
		return some
	}
	Count(t, 1, len(all)-1)
	drawn := int(hash(trial+fmt.Sprint(Seed())) % uint64(len(all)))
	for range all {
		if _, err := exec.LookPath(all[drawn].Name); err == nil {
			break
		}
		drawn = (drawn + 1) % len(all)
	}
	return all[drawn:][:1]
}

// EachProgram runs a test with each program, or with [ProgramSample]. If a program is
// missing, its test is skipped.
func EachProgram(t *testing.T, test func(t *testing.T, p Program)) {
	t.Helper()
	eachOf(t, Programs, test)
}

// EachEngine runs a test with the first program of each engine, or with one of them, as [EachProgram] does.
func EachEngine(t *testing.T, test func(t *testing.T, e sources.Engine)) {
	t.Helper()
	eachOf(t, Programs[:len(Engines)], func(t *testing.T, p Program) { test(t, p.Engine) })
}

func eachOf(t *testing.T, all []Program, test func(t *testing.T, p Program)) {
	t.Helper()
	for _, p := range sampleOf(t, all, t.Name()) {
		t.Run(p.Name, func(t *testing.T) {
			p.Path(t)
			test(t, p)
		})
	}
}
