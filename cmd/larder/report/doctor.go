package report

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/fetch"
)

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
	return strings.Join(Counted(ui.N(d.Failures, "failure"), ui.N(d.Warnings, "warning")), ", ")
}

// heads are the beginnings of findings.
var heads = map[Severity]ui.Span{
	Healthy: ui.Added.Of("ok    "), Risky: ui.Changed.Of("warn  "), Broken: ui.Removed.Of("fail  "),
}

// mostOfOneTrap is how many findings of one trap are shown, unless --verbose is set.
const mostOfOneTrap = 3

// Diagnosed shows what doctor found. An area without a finding is one line, and is left out if no area has one,
// unless --verbose is set. Many findings of one trap are counted.
func (o *Output) Diagnosed(all []Finding) Diagnosed {
	var sum Diagnosed
	for _, f := range all {
		switch f.Severity {
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
	for _, same := range GroupBy(all, func(f Finding) string { return f.Area + f.Kind }) {
		f, more := same[0], len(same)-mostOfOneTrap
		if f.Severity == Healthy && sum == (Diagnosed{}) && o.Level < Verbose {
			continue
		}
		if more <= 1 || o.Level == Verbose || f.Kind == ErrorFinding { // a line for one finding saves nothing
			more = 0
		}
		for _, f := range same[:len(same)-more] {
			o.diagnosis(f)
		}
		if more > 0 {
			o.indented(fmt.Sprintf("and %d more of this kind, which --verbose lists", more), heads[f.Severity])
		}
	}
	return sum
}

// Overheard returns an output that passes errors and warnings to hear, and shows nothing else.
func (o *Output) Overheard(hear func(Finding)) *Output {
	some := *o
	some.Stdout, some.Stderr, some.JSON, some.hear = io.Discard, io.Discard, false, hear
	return &some
}

// overheard returns an error or a warning of a command as a finding of doctor.
func (f Finding) overheard(most int) Finding {
	heard := Finding{Kind: ErrorFinding, Severity: f.Severity, Text: f.text(most), Hints: f.Hints}
	if f.Severity == Risky {
		heard.Kind = WarningFinding
	}
	if len(f.Members) == 0 {
		heard.Subject = At(f.File, f.Line)
	}
	if heard.Line > 0 {
		heard.Text = f.Text
	}
	return heard
}

// diagnosisIndent is where the text of a finding begins, after its severity.
const diagnosisIndent = 6

// diagnosis writes a finding, with the reason and the hints below it. A place that has a line is shown before the text,
// as compilers do, unless the text names it.
func (o *Output) diagnosis(f Finding) {
	text, place := f.Text, f.Place().String()
	if f.Line > 0 && !strings.HasPrefix(text, f.File) && !strings.Contains(text, filepath.Base(place)) {
		text = place + ": " + text
	}
	indent := ui.Plain.Of(strings.Repeat(" ", diagnosisIndent))
	o.indented(o.ShortenHere(text), heads[f.Severity])
	if f.Why != "" {
		o.indented(o.ShortenHere(f.Why), indent)
	}
	for _, hint := range f.Hints {
		if !strings.Contains(hint, "=") { // a setting is used in other directories too
			hint = o.ShortenHere(hint)
		}
		o.indented(hint, indent, hintLabel)
	}
}

// indented writes a text after a head. Its further lines are indented further than the text, so that
// the reason and the hints are easy to find.
func (o *Output) indented(text string, head ...ui.Span) {
	o.print(o.Stdout, append(head, ui.Plain.Of(o.Brief(text))), diagnosisIndent+2)
}

// An Exchange is a request that doctor sent to a server.
type Exchange struct {
	Typed        `type:"exchange"`
	Method       string `json:"method"`
	URL          string `json:"url"`
	Status       int    `json:"status,omitempty"`
	Milliseconds int64  `json:"milliseconds"` // until the answer began
}

// Exchange shows a request with its answer.
func (o *Output) Exchange(e fetch.Exchange) {
	o.Tell(Exchange{Typed{}, e.Method, e.URL, e.Status, e.Took.Milliseconds()})
	status := "-"
	if e.Status > 0 {
		status = strconv.Itoa(e.Status)
	}
	o.Sentence("%-4s  %3s  %s  %s", e.Method, status, e.URL, ui.Took(max(e.Took, time.Millisecond)))
}
