package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

var docs = filepath.Join("..", "..", "docs", "man")

// committed returns the pages in docs/man, by file name.
func committed(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(docs)
	sourcetest.Check(t, err)
	found := map[string]string{}
	for _, e := range entries {
		found[e.Name()] = string(sourcetest.ReadFile(t, filepath.Join(docs, e.Name())))
	}
	return found
}

// The pages are those of the commands as they are now.
func TestPagesAreCurrent(t *testing.T) {
	made, err := pages(filepath.Join("..", ".."))
	sourcetest.Check(t, err)
	there := committed(t)
	sourcetest.EqualSlices(t, slices.Sorted(maps.Keys(there)), slices.Sorted(maps.Keys(made)), "docs/man; run go run ./scripts/man")
	for name, want := range made {
		sourcetest.Expect(t, there[name] == string(want), "docs/man/%s is out of date; run go run ./scripts/man", name)
	}
}

var (
	heading   = regexp.MustCompile(`(?m)^\.S[HS] (.*)$`)
	reference = regexp.MustCompile(`(?m)^\.BR (\S+) \(1\),?$`)
	sections  = []string{"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "FLAGS", "EXAMPLE", "EXIT STATUS", "SEE ALSO"}
)

// Each page is that of a command, and whole. This looks at the pages alone, so an error in
// the script does not hide itself.
func TestPagesAreWhole(t *testing.T) {
	all := committed(t)
	references := map[string]bool{}
	for file, text := range all {
		plain := strings.ReplaceAll(text, `\-`, "-")
		name, ok := strings.CutSuffix(file, ".1")
		command := strings.ReplaceAll(name, "-", " ")
		sourcetest.Expect(t, ok && regexp.MustCompile(`^larder(-[a-z]+)*$`).MatchString(name), "%s is no command's page", file)
		for _, want := range []string{
			".TH " + strings.ToUpper(name) + " 1 ", "\n.SH NAME\n" + name + " - ", "\n.SH SYNOPSIS\n" + command + " ",
		} {
			sourcetest.Expect(t, strings.Contains(plain, want), "%s lacks %q", file, want)
		}
		sourcetest.Expect(t, !regexp.MustCompile(`\n\n| \n|""\n|\\fB(larder )?\\fR`).MatchString(text), "%s has something empty:\n%s", file, text)

		var order []string
		seen := map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			sourcetest.Expect(t, !seen[m[1]], "%s has the heading %s twice", file, m[1])
			if seen[m[1]] = true; strings.HasPrefix(m[0], ".SH") {
				order = append(order, m[1])
			}
		}
		known := slices.DeleteFunc(slices.Clone(sections), func(s string) bool { return !seen[s] })
		sourcetest.EqualSlices(t, order, known, file, "sections")
		for _, m := range reference.FindAllStringSubmatch(plain, -1) {
			sourcetest.Expect(t, all[m[1]+".1"] != "" && m[1] != name, "%s refers to %s", file, m[1])
			if references[m[1]] = true; file == "larder.1" && strings.Count(m[1], "-") == 1 {
				item := `.TP` + "\n" + `\fBlarder ` + strings.TrimPrefix(m[1], "larder-") + `\fR` + "\n"
				sourcetest.Equal(t, strings.Count(text, item), 1, file, "items for", m[1])
			}
		}
	}
	sourcetest.Equal(t, len(references), len(all), "pages that others refer to")
}

// Groff accepts the pages without warnings.
func TestGroffReadsThePages(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff")
	}
	files, err := filepath.Glob(filepath.Join(docs, "*"))
	sourcetest.Check(t, err)
	out, err := exec.Command(groff, append([]string{"-man", "-ww", "-z", "-Tutf8"}, files...)...).CombinedOutput()
	sourcetest.Expect(t, err == nil && len(out) == 0, "%v: %s", err, out)
}
