package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestOutputCommandsNoTerminal(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"plain, żółw", "plain, żółw"},
		{"a\tb", "a\tb"},
		{"\x1b[31mred\a\x00", `\x1b[31mred\a\x00`},
		{"over\rwritten", `over\rwritten`},
		{"\u202egnp.exe\u009b2J", `\u202egnp.exe\u009b2J`},
		{"one\nlarder: error: two", "one\n  larder: error: two"},
		{"not \xff UTF-8", "not \ufffd UTF-8"},
	} {
		var stdout, stderr bytes.Buffer
		out := New(&stdout, &stderr)
		out.Fail(t.Context(), errors.New(test.text))
		out.Warn("%s", test.text)
		out.Show(Missing{line: test.text})
		sourcetest.Equal(t, stderr.String(), "larder: error: "+test.want+"\nlarder: warning: "+test.want+"\n", test.text)
		sourcetest.Equal(t, stdout.String(), test.want+"\n", test.text, "result", &stdout)
	}
}

func TestJSONCommandsNoTerminal(t *testing.T) {
	const text = "żółw\n\x1b[31m\u009b2J\u202egnp.exe\x7f\U000e0001"
	var stdout bytes.Buffer
	out := New(&stdout, io.Discard)
	out.JSON = true
	out.Warn("%s", text)
	want := `"text":"żółw\n\u001b[31m\u009b2J\u202egnp.exe\u007f\udb40\udc01"}` + "\n"
	sourcetest.Expect(t, strings.HasSuffix(stdout.String(), want), "got %q, want %q", &stdout, want)
	var d Diagnostic
	err := json.Unmarshal(stdout.Bytes(), &d)
	sourcetest.Expect(t, err == nil && d.Text == text, "got %q, %v; want %q", d.Text, err, text)
}

func TestOutputEndsWithMostErrors(t *testing.T) {
	many := make(sources.Diagnostics, 1000)
	for i := range many {
		many[i] = sources.Diagnostic{Text: strconv.Itoa(i), Warning: i%2 == 0}
	}
	var stderr bytes.Buffer
	New(io.Discard, &stderr).Fail(t.Context(), many.Err())
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	sourcetest.Equal(t, len(lines), maxFaults+1, "lines")
	sourcetest.Equal(t, lines[len(lines)-1], "larder: error: and 450 more errors")
}

// A text with several lines can't imitate a row either, whether the table is on a terminal or not.
func TestTablesCommandNoTerminal(t *testing.T) {
	for _, width := range []int{0, 40, 80} {
		for _, line := range ui.Table([]ui.Column{{}, {}}, [][]ui.Span{{{Text: "a/b"}, {Text: "one\nlarder: error: two\x1b[2J"}}}, width) {
			text := line.Render(false)
			sourcetest.Expect(t, !strings.HasPrefix(text, "larder") && !strings.Contains(text, "\x1b"),
				"%d columns: %q", width, text)
		}
	}
}

// A name with line breaks can't imitate a hint or another row.
func TestLineBreaksImitateNothing(t *testing.T) {
	const name = "x\n    hint: run me\n         1.2.0  version = \"1.2.0\"\nwarn  x.tf"
	var stdout bytes.Buffer
	out := New(&stdout, io.Discard)
	out.Diagnosed([]Finding{{Severity: Broken, Text: name, Why: name, Hints: []string{"the real one"}}})
	sourcetest.Equal(t, strings.Count(stdout.String(), "\n      hint:"), 1, stdout.String())
	sourcetest.Equal(t, strings.Count("\n"+stdout.String(), "\nwarn"), 0, stdout.String())
	stdout.Reset()
	page := out.Page(11, 6, true)
	page.Heading(name)
	page.Section("To change", ItemOf("2.0.0", "the real one", name), ItemOf("2.0.0", name))
	page.Section("Engine", Item{Cells: []string{name}, Below: []string{name}})
	page.Show()
	sourcetest.Equal(t, strings.Count(stdout.String(), "\n"), 5, stdout.String())
}
