package report

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// A sum contains the last object of JSON output.
type sum struct {
	mu sync.Mutex
	Summary
}

// count counts an error or a warning.
func (s *sum) count(of Severity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of == Risky {
		s.Warnings++
	} else {
		s.Errors++
	}
}

// Also adds the numbers that are not 0 to a text: "Pushed 2 packages; 1 already there".
func Also(text string, numbers ...ui.Number) string {
	return strings.Join(append([]string{text}, ui.Numbers(numbers...)...), "; ")
}

// Counted describes the numbers that are not 0, as [ui.Count] does.
func Counted(numbers ...ui.Number) (texts []string) {
	for _, n := range numbers {
		if n.N > 0 {
			texts = append(texts, ui.Count(n.N, n.What))
		}
	}
	return texts
}

// Said returns what was done, or for a dry run what would be.
func Said(dryRun bool, would, did string) string {
	if dryRun {
		return would
	}
	return did
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
	o.sum.ExitStatus = exitStatus
	o.object(o.sum.Summary)
}

// A Summary is the last object of JSON output. It has the command's own members, too.
type Summary struct {
	Typed      `type:"summary"`
	ExitStatus int `json:"exit_status"`
	Errors     int `json:"errors"`
	Warnings   int `json:"warnings"`

	of any // the command's own members; nil if there are none
}

// MarshalJSON implements [json.Marshaler].
func (s Summary) MarshalJSON() ([]byte, error) {
	type members Summary
	own, err := json.Marshal(members(s))
	if err != nil || s.of == nil {
		return own, err
	}
	others, err := json.Marshal(s.of)
	if err != nil {
		return nil, err
	}
	return slices.Concat(own[:len(own)-1], []byte(","), others[1:]), nil
}
