package ui

import (
	"encoding/json"
	"errors"
	"sync"
)

// A sum contains the last object of JSON output.
type sum struct {
	mu               sync.Mutex
	errors, warnings int
	of               any // the command's own members; nil if there are none
}

// count counts a diagnostic.
func (s *sum) count(d diagnostic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Severity == "warning" {
		s.warnings++
	} else {
		s.errors++
	}
}

// Summary sets the command's own members of the summary. The last call wins.
func (o *Output) Summary(value any) {
	o.sum.mu.Lock()
	defer o.sum.mu.Unlock()
	o.sum.of = value
}

// Summarize writes the summary, the last object of JSON output. It does nothing without --json.
func (o *Output) Summarize(exitStatus int) {
	if !o.JSON {
		return
	}
	o.sum.mu.Lock()
	defer o.sum.mu.Unlock()
	all := struct {
		ExitStatus int `json:"exit_status"`
		Errors     int `json:"errors"`
		Warnings   int `json:"warnings"`
	}{exitStatus, o.sum.errors, o.sum.warnings}
	o.Object("summary", joined{all, o.sum.of})
}

// joined is an object with the members of several objects.
type joined []any

// MarshalJSON implements [json.Marshaler].
func (j joined) MarshalJSON() ([]byte, error) {
	object := []byte("{")
	for _, part := range j {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if len(text) > len("{}") && text[0] == '{' {
			if len(object) > 1 {
				object = append(object, ',')
			}
			object = append(object, text[1:len(text)-1]...)
		}
	}
	return append(object, '}'), nil
}

// isFound reports whether an error is the result of a check that found problems. Such an error
// is printed as a summary.
func isFound(err error) bool {
	var result interface{ Found() }
	return errors.As(err, &result)
}
