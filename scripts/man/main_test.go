package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The pages are those of the commands as they are now.
func TestPagesAreCurrent(t *testing.T) {
	made, err := pages(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "man")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		there = append(there, e.Name())
	}
	if !slices.Equal(there, names(made)) {
		t.Fatalf("docs/man has %q, want %q; run go run ./scripts/man", there, names(made))
	}
	for name, want := range made {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != string(want) {
			t.Errorf("docs/man/%s is out of date; run go run ./scripts/man", name)
		}
	}
}

// Man accepts the pages without warnings.
func TestManReadsThePages(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff")
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "man", "*.1"))
	if err != nil || len(files) == 0 {
		t.Fatal("no pages", err)
	}
	for _, file := range files {
		out, err := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8", file).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", file, err, out)
		}
	}
}
