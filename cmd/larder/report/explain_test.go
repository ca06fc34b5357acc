package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// An explanation fits on a screen, however many constraints, sources and versions there are, unless everything is asked
// for.
func TestExplanationFitsAScreen(t *testing.T) {
	e := Explanation{Provider: "registry.terraform.io/acme/cloud", Engine: "terraform", Because: "it is the only one", Why: "none", Install: "fails", InstallUpgrade: "fails"}
	for i := range 30 {
		text := fmt.Sprint(i)
		e.Required = append(e.Required, Constraint{Constraint: ">= 1." + text, Place: Place{"main.tf", i + 1}})
		e.Methods = append(e.Methods, MethodAnswer{Method: "network_mirror https://" + text + ".example/", Used: true, Asked: true, Versions: 2, Newest: "1.0.0"})
		e.Newer = append(e.Newer, Excluded{Versions: []string{"2." + text + ".0"}, Why: "because of " + text})
		e.Advice = append(e.Advice, Advice{Version: "2.0.0", Paste: "paste " + text, What: "somewhere"})
	}
	for all, most := range map[bool]int{false: 23, true: 1000} {
		var stdout, stderr bytes.Buffer
		New(&stdout, &stderr).Explained(e, all)
		lines := strings.Count(stdout.String(), "\n")
		sourcetest.Expect(t, lines <= most && (lines > 120) == all, "all %v: %d lines\n%s", all, lines, &stdout)
		sourcetest.Expect(t, strings.Contains(stdout.String(), "--all shows them") != all, "all %v:\n%s", all, &stdout)
	}
}
