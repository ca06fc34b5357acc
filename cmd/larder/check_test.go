package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// The SARIF documents in stories follow the schema of OASIS, whose terms don't allow a copy here. LARDER_SARIF_SCHEMA
// is its path, and python3 needs the package jsonschema.
func TestSARIFFollowsSchema(t *testing.T) {
	schema := os.Getenv("LARDER_SARIF_SCHEMA")
	if schema == "" {
		t.Skip("LARDER_SARIF_SCHEMA is not set: it is the path of sarif-schema-2.1.0.json")
	}
	python := "python3"
	if exec.Command(python, "-m", "jsonschema", "--version").Run() != nil {
		python = "/usr/bin/python3" // of the system, where another one is first on PATH
	}
	stories, err := filepath.Glob("testdata/script/check*.txtar")
	sourcetest.Check(t, err)
	n := 0
	for _, story := range stories {
		files, err := txtar.ParseFile(story)
		sourcetest.Check(t, err)
		for _, f := range files.Files {
			if filepath.Ext(f.Name) != ".sarif" {
				continue
			}
			n++
			path := filepath.Join(t.TempDir(), "check.sarif")
			sourcetest.Check(t, os.WriteFile(path, f.Data, 0o600))
			out, err := exec.Command(python, "-m", "jsonschema", "-i", path, schema).CombinedOutput()
			sourcetest.Expect(t, err == nil, "%s: %s: %s", story, f.Name, out)
		}
	}
	sourcetest.Expect(t, n > 1, "%d documents", n)
}
