package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Documents list what there is: nothing more, nothing less.
func TestDocumentsAgreeWithTheCode(t *testing.T) {
	var statuses []string
	for _, s := range exitStatuses {
		statuses = append(statuses, fmt.Sprintf("%d %s", s.status, s.meaning))
	}
	if ci := document(t, "docs/ci.md"); !strings.Contains(ci, "\n## Exit status\n\n"+strings.Join(statuses, ", ")+".\n") {
		t.Errorf("docs/ci.md does not list the exit statuses %q", statuses)
	}
	links := slices.DeleteFunc(slices.Clone(sources.LinkModes), func(m sources.LinkMode) bool { return m == sources.LinkAuto })
	json := document(t, "docs/json.md")
	for field, want := range map[string][]string{"verdict": sources.Texts(sources.Verdicts()), "link": sources.Texts(links)} {
		row := regexp.MustCompile("(?m)^\\| `" + field + "` \\|.*$").FindString(json)
		var got []string
		for _, word := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(row, -1)[1:] {
			got = append(got, word[1])
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("docs/json.md: %s is one of %q, want %q", field, got, want)
		}
	}
}

func document(t *testing.T, name string) string {
	t.Helper()
	text := sourcetest.ReadFile(t, "../../"+name)
	return string(text)
}
