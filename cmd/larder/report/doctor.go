package report

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// A Severity is how bad a finding of doctor is.
type Severity string

// The severities.
const (
	Healthy Severity = "ok"   // nothing was found
	Risky   Severity = "warn" // works, but not as people expect
	Broken  Severity = "fail" // fails, or loses something
)

// A Diagnosis is a trap that doctor found, or that an area has none.
type Diagnosis struct {
	Typed    `type:"diagnosis"`
	Severity Severity `json:"severity"`
	Area     string   `json:"area"`           // what was examined, such as "plugin cache"
	Trap     string   `json:"trap,omitempty"` // permanent name of the trap, such as "cache-in-mirror", or one of the names below
	Text     string   `json:"text"`           // what is wrong, in one sentence without a full stop
	Why      string   `json:"why,omitempty"`  // why it matters, likewise
	Fix      string   `json:"fix,omitempty"`  // what fixes it, a command if there is one
	Path     string   `json:"path,omitempty"` // of the file or directory in question
	Line     int      `json:"line,omitempty"`
}

// The names of findings that other commands report too.
const (
	ErrorFinding   = "error"
	WarningFinding = "warning"
)

// Diagnosed is the summary of doctor.
type Diagnosed struct {
	Failures int `json:"failures"`
	Warnings int `json:"risks"` // "warnings" of a summary are those of the run
}

// Text sums up, as in "1 failure, 2 warnings".
func (d Diagnosed) Text() string {
	return strings.Join(counted(ui.N(d.Failures, "failure"), ui.N(d.Warnings, "warning")), ", ")
}

// severityPaints are the colors of severities.
var severityPaints = map[Severity]ui.Paint{Healthy: ui.Added, Risky: ui.Changed, Broken: ui.Removed}

// mostOfOneTrap is how many findings of one trap are shown, unless --verbose is set.
const mostOfOneTrap = 3

// Diagnosed shows what doctor found. An area without a finding is one line, and is left out if no area has one,
// unless --verbose is set. Many findings of one trap are counted.
func (o *Output) Diagnosed(all []Diagnosis) Diagnosed {
	var sum Diagnosed
	for _, d := range all {
		switch d.Severity {
		case Broken:
			sum.Failures++
		case Risky:
			sum.Warnings++
		}
	}
	o.Summary(sum)
	tellAll(o, all)
	if o.JSON {
		return sum
	}
	for _, same := range grouped(all, func(d Diagnosis) string { return d.Area + d.Trap }) {
		d, more := same[0], len(same)-mostOfOneTrap
		if d.Severity == Healthy && sum == (Diagnosed{}) && o.Level < Verbose {
			continue
		}
		if more <= 1 || o.Level == Verbose || d.Trap == ErrorFinding { // a line for one finding saves nothing
			more = 0
		}
		for _, d := range same[:len(same)-more] {
			o.diagnosis(d)
		}
		if more > 0 {
			o.indented(fmt.Sprintf("and %d more of this kind, which --verbose lists", more), d.head())
		}
	}
	return sum
}

// Overheard returns an output that passes errors and warnings to hear, and shows nothing else.
func (o *Output) Overheard(hear func(Diagnosis)) *Output {
	some := *o
	some.Stdout, some.Stderr, some.JSON, some.hear = io.Discard, io.Discard, false, hear
	return &some
}

// diagnosis returns an error or a warning of a command as a finding.
func (s spoken) diagnosis(most int) Diagnosis {
	d := Diagnosis{Severity: Broken, Trap: ErrorFinding, Text: s.text(most), Fix: strings.Join(s.Hints, "; ")}
	if s.Severity == "warning" {
		d.Severity, d.Trap = Risky, WarningFinding
	}
	if len(s.members) == 1 && s.Line > 0 {
		d.Text, d.Path, d.Line = s.Diagnostic.Text, s.File, s.Line
	}
	return d
}

// diagnosisIndent is where the text of a finding begins, after its severity.
const diagnosisIndent = 6

// head returns the severity, as the beginning of a line.
func (d Diagnosis) head() ui.Span {
	return severityPaints[d.Severity].Of(fmt.Sprintf("%-*s", diagnosisIndent, d.Severity))
}

// diagnosis writes a finding, with the reason and the fix below it. A place that has a line is shown before the text,
// as compilers do, unless the text names it.
func (o *Output) diagnosis(d Diagnosis) {
	text := d.Text
	place := fmt.Sprintf("%s:%d", d.Path, d.Line)
	if d.Line > 0 && !strings.HasPrefix(text, d.Path) && !strings.Contains(text, filepath.Base(place)) {
		text = place + ": " + text
	}
	indent := ui.Plain.Of(strings.Repeat(" ", diagnosisIndent))
	o.indented(o.ShortenHere(text), d.head())
	if d.Why != "" {
		o.indented(o.ShortenHere(d.Why), indent)
	}
	fix := d.Fix
	if !strings.Contains(fix, "=") { // a setting is used in other directories too
		fix = o.ShortenHere(fix)
	}
	if fix != "" {
		o.indented(fix, indent, ui.Bold.Of("hint: "))
	}
}

// indented writes a text after a head. Its further lines are indented further than the text, so that
// the reason and the fix are easy to find.
func (o *Output) indented(text string, head ...ui.Span) {
	o.print(o.Stdout, append(head, ui.Plain.Of(o.address(text))), diagnosisIndent+2)
}
