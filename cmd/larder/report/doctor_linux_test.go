package report

import (
	"fmt"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/ui/uitest"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Findings fit narrow terminals, name their place once, and are counted if there are many of one trap. A command in a
// hint stays whole.
func TestDiagnosedOnTerminals(t *testing.T) {
	all := []Diagnosis{
		{Severity: Broken, Area: "a", Trap: "one", Path: "/x/main.tf", Line: 3, Text: "the provider can't be found in any source", Why: "engines can't install it", Fix: "larder install --upgrade --engine terraform"},
		{Severity: Risky, Area: "a", Trap: "two", Path: "/x/.tofurc", Line: 2, Text: "a setting at /x/.tofurc:2 is ignored"},
		{Severity: Healthy, Area: "b", Text: "b: all is well"},
	}
	for i := range 5 {
		all = append(all, Diagnosis{Severity: Risky, Area: "c", Trap: "many", Text: fmt.Sprintf("finding %d", i)})
	}
	for width, want := range map[int]string{
		40: `fail  /x/main.tf:3: the provider can't
        be found in any source
      engines can't install it
      hint:
        larder install --upgrade --engine terraform
warn  a setting at /x/.tofurc:2 is
        ignored
ok    b: all is well
warn  finding 0
warn  finding 1
warn  finding 2
warn  and 2 more of this kind, which
        --verbose lists
`,
		80: `fail  /x/main.tf:3: the provider can't be found in any source
      engines can't install it
      hint: larder install --upgrade --engine terraform
warn  a setting at /x/.tofurc:2 is ignored
ok    b: all is well
warn  finding 0
warn  finding 1
warn  finding 2
warn  and 2 more of this kind, which --verbose lists
`,
	} {
		w := uitest.New(t, width, 50)
		w.Read()
		out := New(w.TTY, w.TTY)
		sum := out.Diagnosed(all)
		sourcetest.Expect(t, sum == Diagnosed{Failures: 1, Warnings: 6}, "%+v", sum)
		fmt.Fprint(w.TTY, "\x00")
		w.Until("\x00")
		sourcetest.Equal(t, w.Text()+"\n", want, width, "columns")
	}
}

// On a small terminal, the worst findings remain, without their reasons, and the others are counted.
func TestDiagnosedOnASmallTerminal(t *testing.T) {
	all := []Diagnosis{{Severity: Healthy, Area: "a", Text: "a: all is well"}}
	for i := range 9 {
		d := Diagnosis{Severity: Risky, Area: "b", Trap: fmt.Sprint(i), Text: fmt.Sprintf("finding %d", i), Why: "it matters", Fix: "fix it"}
		if i == 8 {
			d.Severity = Broken
		}
		all = append(all, d)
	}
	w := uitest.New(t, 80, 10)
	w.Read()
	New(w.TTY, w.TTY).Diagnosed(all)
	fmt.Fprint(w.TTY, "\x00")
	w.Until("\x00")
	const want = `fail  finding 8
      hint: fix it
warn  finding 0
      hint: fix it
warn  finding 1
      hint: fix it
6 more findings not shown: --verbose shows everything
`
	sourcetest.Equal(t, w.Text()+"\n", want, "on 10 lines")
}
