package report

import (
	"fmt"
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
	Severity Severity `json:"severity"`
	Area     string   `json:"area"`           // what was examined, such as "plugin cache"
	Trap     string   `json:"trap,omitempty"` // permanent name of the check that found it, such as "cache-in-mirror"
	Text     string   `json:"text"`           // what is wrong, in one sentence without a full stop
	Why      string   `json:"why,omitempty"`  // why it matters, likewise
	Fix      string   `json:"fix,omitempty"`  // what fixes it, a command if there is one
	Path     string   `json:"path,omitempty"` // of the file or directory in question
	Line     int      `json:"line,omitempty"`
}

// Kind implements [Object].
func (Diagnosis) Kind() string { return "diagnosis" }

// Diagnosed is the summary of doctor.
type Diagnosed struct {
	Failures int `json:"failures"`
	Warnings int `json:"warnings"`
}

// Text sums up, as in "1 failure, 2 warnings".
func (d Diagnosed) Text() string {
	return strings.Join(ui.Numbers(ui.N(d.Failures, plural(d.Failures, "failure")), ui.N(d.Warnings, plural(d.Warnings, "warning"))), ", ")
}

func plural(n int, thing string) string {
	if n == 1 {
		return thing
	}
	return thing + "s"
}

// severityPaints are the colors of severities.
var severityPaints = map[Severity]ui.Paint{Healthy: ui.Added, Risky: ui.Changed, Broken: ui.Removed}

// Diagnosed shows what doctor found. An area without a finding is one line, and is left out if no area has one,
// unless --verbose is set.
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
	for _, d := range all {
		if o.JSON {
			o.object(d)
		} else if d.Severity != Healthy || sum != (Diagnosed{}) || o.Level == Verbose {
			o.diagnosis(d)
		}
	}
	o.Summary(sum)
	return sum
}

// diagnosis shows a finding, with the reason and the fix below it.
func (o *Output) diagnosis(d Diagnosis) {
	const indent = "      "
	head := severityPaints[d.Severity].Of(fmt.Sprintf("%-*s", len(indent), d.Severity))
	o.indented(ui.Line{head}, d.Text)
	if d.Why != "" {
		o.indented(ui.Line{ui.Faint.Of(indent)}, d.Why)
	}
	if d.Fix != "" {
		o.indented(ui.Line{ui.Plain.Of(indent), ui.Bold.Of("hint: ")}, d.Fix)
	}
}

// indented writes a text after a head, as a result. Its further lines begin below the text.
func (o *Output) indented(head ui.Line, text string) {
	text = ui.Visible(o.address(o.ShortenHere(text)))
	column := len(head.Plain())
	if width := o.Width(); width > 0 {
		text = ui.Wrapped(text, max(width, column+20), column)
	}
	o.result(append(head, ui.Plain.Of(text)))
}
