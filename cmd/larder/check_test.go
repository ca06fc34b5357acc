package main

import (
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The guide has all rules of check, whose names are permanent.
func TestGuideListsCheckRules(t *testing.T) {
	guide := document(t, "docs/ci.md")
	rows := ""
	for _, r := range report.CheckRules {
		rows += "| `" + r.ID + "` | " + r.Does + " |\n"
	}
	sourcetest.Expect(t, strings.Contains(guide, "\n### Rules of `larder check`\n\n| rule | problem |\n| --- | --- |\n"+rows+"\n"), "docs/ci.md has other rules than\n%s", rows)
}
