package sources

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Diagnostic is something to say about a place in a file: an error, or a
// warning that stops nothing.
type Diagnostic struct {
	Warning bool
	File    string // as the user would name it; empty if there is no file
	Line    int    // 1 is the first; 0 if unknown
	Column  int    // in characters, 1 is the first; 0 if unknown
	Text    string // what is wrong, as errors are worded
	Hint    string // what to do about it; may be empty
}

// String is "FILE:LINE:COLUMN: TEXT", as far as these are known.
func (d Diagnostic) String() string {
	switch {
	case d.File == "":
		return d.Text
	case d.Line == 0:
		return d.File + ": " + d.Text
	case d.Column == 0:
		return fmt.Sprintf("%s:%d: %s", d.File, d.Line, d.Text)
	default:
		return fmt.Sprintf("%s:%d:%d: %s", d.File, d.Line, d.Column, d.Text)
	}
}

// Diagnostics are all that is to be said about some input, in the order in
// which it stands there.
type Diagnostics []Diagnostic

// Err is nil if ds holds warnings only, else an error that lists the errors.
func (ds Diagnostics) Err() error {
	for _, d := range ds {
		if !d.Warning {
			return &DiagnosticsError{ds}
		}
	}
	return nil
}

// A DiagnosticsError is an input with errors. It holds the warnings too.
type DiagnosticsError struct{ Diagnostics Diagnostics }

func (e *DiagnosticsError) Error() string {
	var lines []string
	for _, d := range e.Diagnostics {
		if !d.Warning {
			lines = append(lines, d.String())
		}
	}
	return strings.Join(lines, "\n")
}

// LowerFirst is a text of another program without the capital that it begins with.
func LowerFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(first)) + s[size:]
}
