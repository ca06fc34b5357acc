package report

import (
	"fmt"
	"path/filepath"
	"slices"
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
	Warnings int `json:"risks"` // "warnings" of a summary are those of the run
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

// mostOfOneTrap is how many findings of one trap are shown, unless --verbose is set.
const mostOfOneTrap = 3

// Diagnosed shows what doctor found. An area without a finding is one line, and is left out if no area has one,
// unless --verbose is set. Many findings of one trap are counted. If a terminal is too small for everything, the reasons
// and then the last warnings are left out.
func (o *Output) Diagnosed(all []Diagnosis) Diagnosed {
	var sum Diagnosed
	for _, d := range all {
		switch d.Severity {
		case Broken:
			sum.Failures++
		case Risky:
			sum.Warnings++
		}
		if o.JSON {
			o.object(d)
		}
	}
	o.Summary(sum)
	if o.JSON {
		return sum
	}
	_, height := ui.TerminalSize(o.Stdout)
	const others = 3 // lines: what is left out, the summary, and the prompt
	blocks := o.diagnoses(all, sum, false)
	tooLong := func() bool {
		return height > 0 && o.Level < Verbose && len(slices.Concat(blocks...))+others > height
	}
	if tooLong() {
		blocks = o.diagnoses(all, sum, true)
	}
	left := len(blocks)
	for len(blocks) > 1 && tooLong() {
		blocks = blocks[:len(blocks)-1]
	}
	for _, line := range slices.Concat(blocks...) {
		o.result(line)
	}
	if left -= len(blocks); left > 0 {
		o.Sentence("%s not shown: --verbose shows everything", ui.Count(left, "more finding"))
	}
	return sum
}

// diagnoses returns the lines of each finding. Brief means failures first, without reasons and without areas that have
// no finding.
func (o *Output) diagnoses(all []Diagnosis, sum Diagnosed, brief bool) (blocks [][]ui.Line) {
	if brief {
		order := []Severity{Broken, Risky, Healthy}
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b Diagnosis) int { return slices.Index(order, a.Severity) - slices.Index(order, b.Severity) })
	}
	traps, shown := map[string]int{}, map[string]int{}
	for _, d := range all {
		traps[d.Area+d.Trap]++
	}
	for _, d := range all {
		kind := d.Area + d.Trap
		shown[kind]++
		most, more := mostOfOneTrap, traps[kind]-mostOfOneTrap
		if more == 1 || o.Level == Verbose || d.Trap == "" { // a line for one finding saves nothing
			most = traps[kind]
		}
		if brief {
			d.Why = ""
		}
		switch {
		case shown[kind] == most+1:
			blocks = append(blocks, o.indented(d.head(), fmt.Sprintf("and %d more of this kind, which --verbose lists", more)))
		case shown[kind] > most, brief && d.Severity == Healthy:
		case d.Severity != Healthy || sum != (Diagnosed{}) || o.Level == Verbose:
			blocks = append(blocks, o.diagnosis(d))
		}
	}
	return blocks
}

// diagnosisIndent is where the text of a finding begins, after its severity.
const diagnosisIndent = 6

// head returns the severity, as the beginning of a line.
func (d Diagnosis) head() ui.Line {
	return ui.Line{severityPaints[d.Severity].Of(fmt.Sprintf("%-*s", diagnosisIndent, d.Severity))}
}

// diagnosis returns the lines of a finding, with the reason and the fix below it. A place that has a line is shown before the text,
// as compilers do, unless the text names it.
func (o *Output) diagnosis(d Diagnosis) []ui.Line {
	text := d.Text
	place := fmt.Sprintf("%s:%d", d.Path, d.Line)
	if d.Line > 0 && !strings.HasPrefix(text, d.Path) && !strings.Contains(text, filepath.Base(place)) {
		text = place + ": " + text
	}
	indent := strings.Repeat(" ", diagnosisIndent)
	lines := o.indented(d.head(), o.ShortenHere(text))
	if d.Why != "" {
		lines = append(lines, o.indented(ui.Line{ui.Plain.Of(indent)}, o.ShortenHere(d.Why))...)
	}
	fix := d.Fix
	if !strings.Contains(fix, "=") { // a setting is used in other directories too
		fix = o.ShortenHere(fix)
	}
	if fix != "" {
		lines = append(lines, o.indented(ui.Line{ui.Plain.Of(indent), ui.Bold.Of("hint: ")}, fix)...)
	}
	return lines
}

// indented returns the lines of a text after a head. Its further lines are indented further than the text, so that
// the reason and the fix are easy to find.
func (o *Output) indented(head ui.Line, text string) (lines []ui.Line) {
	text = ui.Hanging(o.address(text), diagnosisIndent+2)
	if width := o.Width(); width > 0 {
		text = ui.WrappedBelow(text, width, len([]rune(head.Plain())), diagnosisIndent+2)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if last := len(head) - 1; line == "" && last >= 0 { // a command that is too wide begins on the next line
			head[last].Text = strings.TrimRight(head[last].Text, " ")
		}
		lines = append(lines, append(head, ui.Plain.Of(line)))
		head = nil
	}
	return lines
}
