package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// recordedWidget is the provider of the situation.
const recordedWidget = "registry.terraform.io/acme/widget"

// A failingTest is a test that notes its failure and goes on as if it had ended.
type failingTest struct {
	testing.TB
	text string
}

func (f *failingTest) Helper() {}

func (f *failingTest) Fatalf(format string, args ...any) {
	f.text = format
	panic(f)
}

// failureOf returns the format of the error with which do ends, or an empty string.
func failureOf(t *testing.T, do func(f *failingTest)) (text string) {
	f := &failingTest{TB: t}
	defer func() {
		if r := recover(); r != nil && r != any(f) {
			panic(r)
		}
		text = f.text
	}()
	do(f)
	return ""
}

// A record is replayed only in the situation that was recorded, to the last file and answer.
func TestRecordsAreOfOneSituation(t *testing.T) {
	onlyRecorded(t)
	p := engineReleases[0]
	if records.on && !p.recording() {
		t.Skip("another release is recorded")
	}
	situation := func(t testing.TB, change func(dir string, w *sourcetest.World)) engineRun {
		g := groundFor(t)
		w, dir := g.world, g.base
		w.Add(recordedWidget, "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64", "darwin_arm64"}})
		g.write("main.tf", "terraform {\n  required_providers {\n    w = { source = \""+recordedWidget+"\" }\n  }\n}\n")
		change(dir, w)
		env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
		for _, variable := range w.Env() {
			if !strings.HasPrefix(variable, "TF_") {
				env = append(env, variable)
			}
		}
		return engineRun{Base: dir, Dir: dir, Env: env, Args: []string{"init", "-no-color"}, World: w}
	}
	same := func(string, *sourcetest.World) {}
	judge := func(t testing.TB, data string) *judge {
		return newJudge(t, p, "itself", "widget", data)
	}

	out, status := judge(t, "data").run(situation(t, same))
	sourcetest.Expect(t, status == 0 && strings.Contains(out, "Installed "), "%d: %s", status, out)
	if records.on || judge(t, "data").live() {
		return
	}

	for what, change := range map[string]func(dir string, w *sourcetest.World){
		"no record": func(dir string, _ *sourcetest.World) {
			sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "more.tf"), nil, 0o644))
		},
		"answer":         func(_ string, w *sourcetest.World) { w.Add(recordedWidget, "1.1.0") },
		"these requests": func(_ string, w *sourcetest.World) { w.Registry.Hide("*/1.0.0/darwin_arm64") },
		"answer these req": func(_ string, w *sourcetest.World) {
			w.Registry.Fault(sourcetest.Fault{Path: "*.sig", Status: 404})
		},
	} {
		text := failureOf(t, func(f *failingTest) { judge(f, "data").run(situation(f, change)) })
		sourcetest.Expect(t, strings.Contains(text, what), "%s: %q", what, text)
	}
	text := failureOf(t, func(f *failingTest) { judge(f, "other data") })
	sourcetest.Expect(t, strings.Contains(text, "different situation"), "other data: %q", text)
	text = failureOf(t, func(f *failingTest) {
		newJudge(f, engineRelease{Engine: sources.Terraform, Version: "0.1.0"}, "itself", "widget", nil)
	})
	sourcetest.Expect(t, strings.Contains(text, "no record"), "another release: %q", text)
}
