package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/acquire"
)

// The log of a server has one form for all that it shows: a line of standard output with the time at which it was
// written, the level, and the request that it is about, or the same members of a JSON object.

// info is the level of lines that are neither warnings nor errors.
const info Severity = "info"

// logTime is the format of times in the log, in UTC.
const logTime = "2006-01-02T15:04:05.000Z"

// KeepLog makes all output lines of a log, or no longer.
func (o *Output) KeepLog(keep bool) { o.log = keep }

// ForRequest returns the output for what a request has begun.
func (o *Output) ForRequest(number int64) *Output {
	some := *o
	some.request = number
	return &some
}

// logged writes a line of the log, whatever is in the text. Its further lines are joined to the first.
func (o *Output) logged(label ui.Span, text string) {
	level := info
	switch label {
	case errorLabel:
		level = Broken
	case warningLabel:
		level = Risky
	case hintLabel:
		text = label.Text + text
	}
	o.logAt(level, text)
}

func (o *Output) logAt(level Severity, text string) {
	o.logging.Lock() // lines are in the order of their times
	defer o.logging.Unlock()
	request := "-"
	if o.request > 0 {
		request = fmt.Sprintf("#%d", o.request)
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
	o.Print(strings.Join([]string{Clock().UTC().Format(logTime), string(level), request, text}, " ") + "\n")
}

// logMembers returns the members that all objects of a log have.
func (o *Output) logMembers(v Object) string {
	if !o.log {
		return ""
	}
	level := info
	switch v := v.(type) {
	case Diagnostic:
		level = v.Severity
	case Event:
		if v.Step == acquire.Warned || v.Step == acquire.Failed {
			level = Risky
		}
	case Served:
		level = v.level()
	}
	members, _ := json.Marshal(struct { // whose values always have JSON
		Time    string   `json:"time"`
		Level   Severity `json:"level"`
		Request int64    `json:"request,omitempty"`
	}{Clock().UTC().Format(logTime), level, o.request})
	return "," + strings.Trim(string(members), "{}")
}
