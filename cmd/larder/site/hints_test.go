package site

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Hints must have the arguments of the command, so the line to run comes from [Site.Again].
func TestHintsRunAgain(t *testing.T) {
	command := regexp.MustCompile(`"[^"\n]*\blarder (install|lock|verify|prefetch)\b[^"\n]*"`)
	const general = "larder lock keeps the locked version" // about the command, not a line to run
	for _, pattern := range []string{"*.go", "../job/*.go", "../job/*/*.go"} {
		files, err := filepath.Glob(pattern)
		sourcetest.Require(t, err == nil && len(files) > 0, "no files %s", pattern)
		for _, file := range files {
			for _, found := range command.FindAllString(string(sourcetest.ReadFile(t, file)), -1) {
				again := strings.HasSuffix(file, "_test.go") || strings.Contains(found, general)
				sourcetest.Expect(t, again, "%s: write this command with Site.Again: %s", file, found)
			}
		}
	}
}
