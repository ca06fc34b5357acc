package sources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Diagnostic is an error or a warning about a place in a file.
type Diagnostic struct {
	Warning bool
	File    string // path as the user would write it; empty if there is no file
	Line    int    // counted from 1; 0 if unknown
	Column  int    // in characters, counted from 1; 0 if unknown
	Text    string // the problem, worded like an error
	Hint    string // how to fix it; may be empty
}

// String returns "FILE:LINE:COLUMN: TEXT", without the parts that are unknown.
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

// Diagnostics are all errors and warnings about some input, in the order of the
// input.
type Diagnostics []Diagnostic

// Sort sorts the diagnostics about one file by line and column.
func (ds Diagnostics) Sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// Err returns nil if ds has only warnings, otherwise an error that lists the
// errors.
func (ds Diagnostics) Err() error {
	for _, d := range ds {
		if !d.Warning {
			return &DiagnosticsError{ds}
		}
	}
	return nil
}

// A DiagnosticsError lists the errors in an input. It holds the warnings too.
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

// LowerFirst returns s with its first letter in lower case. It is for messages
// of other programs that begin with a capital.
func LowerFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(first)) + s[size:]
}
