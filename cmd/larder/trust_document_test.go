package main_test

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Each row of docs/trust.md names tests that exist.
func TestTrustIsTested(t *testing.T) {
	tests := map[string]bool{}
	for _, f := range goFiles(t) {
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test {
				tests[fn.Name.Name] = true
			}
		}
	}
	stories, err := filepath.Glob("testdata/script/*.txtar")
	sourcetest.Check(t, err)
	for _, story := range stories {
		tests[strings.TrimSuffix(filepath.Base(story), ".txtar")] = true
	}
	name := regexp.MustCompile("`([A-Za-z_]+)`")
	attacks := section(string(sourcetest.ReadFile(t, "../../docs/trust.md")), "## Attacks and defenses")
	rows := regexp.MustCompile(`(?m)^\|.*\| (.*) \|$`).FindAllStringSubmatch(attacks, -1)
	for _, row := range rows {
		cell := row[1]
		if cell == "tests" || cell == "---" {
			continue
		}
		named := name.FindAllStringSubmatch(cell, -1)
		sourcetest.Expect(t, len(named) > 0, "docs/trust.md names no test: %s", row[0])
		for _, m := range named {
			sourcetest.Expect(t, tests[m[1]] || m[1] == "Fuzz", "docs/trust.md: no test is called %s", m[1])
		}
	}
	sourcetest.Expect(t, len(rows) > 20, "docs/trust.md has %d rows", len(rows))
}

// section returns the part of a document from a heading to the next one of the same level.
func section(text, heading string) string {
	_, text, _ = strings.Cut(text, heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}
