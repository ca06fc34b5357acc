package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

var docs = filepath.Join("..", "..", "docs", "man")

// committed returns the pages in docs/man, by file name.
func committed(t *testing.T) map[string]string {
	t.Helper()
	entries := sourcetest.Must(os.ReadDir(docs))(t)
	found := map[string]string{}
	for _, e := range entries {
		found[e.Name()] = string(sourcetest.ReadFile(t, filepath.Join(docs, e.Name())))
	}
	return found
}

// The pages are those of the commands as they are now.
func TestPagesAreCurrent(t *testing.T) {
	made := sourcetest.Must(pages(filepath.Join("..", "..")))(t)
	there := committed(t)
	sourcetest.EqualSlices(t, slices.Sorted(maps.Keys(there)), slices.Sorted(maps.Keys(made)), "docs/man; run go run ./scripts/man")
	for name, want := range made {
		sourcetest.Expect(t, there[name] == string(want), "docs/man/%s is out of date; run go run ./scripts/man", name)
	}
}

// Groff accepts the pages without warnings.
func TestGroffReadsThePages(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff")
	}
	files := sourcetest.Must(filepath.Glob(filepath.Join(docs, "*")))(t)
	out, err := exec.Command(groff, append([]string{"-man", "-ww", "-z", "-Tutf8"}, files...)...).CombinedOutput()
	sourcetest.Expect(t, err == nil && len(out) == 0, "%v: %s", err, out)
}
