package site

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Hints must have the arguments of the command, so the line to run comes from [Site.Again].
func TestHintsRunAgain(t *testing.T) {
	command := regexp.MustCompile(`"[^"\n]*\blarder (install|lock|verify|prefetch)\b[^"\n]*"`)
	const general = "larder lock keeps the locked version" // about the command, not a line to run
	files, _ := filepath.Glob("*.go")
	jobs, _ := filepath.Glob("../job/*.go")
	more, _ := filepath.Glob("../job/*/*.go")
	if len(files) == 0 || len(jobs) == 0 || len(more) == 0 {
		t.Fatal("no files")
	}
	files = slices.Concat(files, jobs, more)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range command.FindAllString(string(src), -1) {
			if !strings.HasSuffix(file, "_test.go") && !strings.Contains(found, general) {
				t.Errorf("%s: write this command with Site.Again: %s", file, found)
			}
		}
	}
}
