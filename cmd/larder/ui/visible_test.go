package ui

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// What leaves the process is no command for the log of a CI system, and stays readable.
func TestCommandsForLogs(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"::error::x", `:\u003aerror::x`},
		{" \t::error::x\na\n  ::error::x", " \t:\\u003aerror::x\na\n  :\\u003aerror::x"},
		{"\x1b[31m::error::x\x1b[0m", "\x1b[31m:\\u003aerror::x\x1b[0m"},
		{"a::b ::c", "a::b ::c"},
		{"a ##[error]x ##[b]", `a ##\u005berror]x ##\u005bb]`},
		{"##VSO[task.x]##teamcity[x]#### [x] # [y]", `##VSO\u005btask.x]##teamcity\u005bx]#### [x] # [y]`},
		{"--- x\n+++ x\n~~~ x\n^^^ +++\n a --- x", "--\\u002d x\n++\\u002b x\n~~\\u007e x\n^^\\u005e +++\n a --- x"},
		{"asection_start:1:x, section_ends", `asection_start\u003a1:x, section_ends`},
		{"travis_fold:start:x", `travis_fold\u003astart:x`},
		{"a\u009b\u202e\u2028\u200b\x7f\u3164\U000e0001\x1b[2J\r\u00a0",
			`a\u009b\u202e\u2028\u200b\u007f\u3164\udb40\udc01\u001b[2J\u000d\u00a0`},
		{"a\x1b[1;31mb\x1b[0m\r\n\tżółw ✓\n", "a\x1b[1;31mb\x1b[0m\r\n\tżółw ✓\n"},
	} {
		var out bytes.Buffer
		NewScreen(&out).Write(&out, test.text)
		sourcetest.Equal(t, out.String(), test.want, test.text)
	}
	var out bytes.Buffer
	s := NewScreen(&out)
	s.WriteAfter(&out, "--- ", "a/##[x]\n")
	sourcetest.Equal(t, out.String(), "--- a/##\\u005bx]\n")
	s.Redact = func(text string) string { return strings.ReplaceAll(text, "secret", "[…]") }
	s.Write(&out, "##secret\n")
	sourcetest.Equal(t, out.String(), "--- a/##\\u005bx]\n##\\u005b…]\n")
}

// Text is free of hidden characters and of commands for logs in each form of the output, and JSON keeps its value.
func FuzzOutward(f *testing.F) {
	for _, text := range []string{
		"::error::x", "a\n##[b]", "\x1b[31m::a", "\r##vso[x]", "\u202e\u200b\u2028\x7f\u009b",
		"--- x\r\n", "\xff##\u00adx[", "\U000e0001", "section_start:1:a\r\x1b[0K",
	} {
		f.Add(text)
	}
	command := regexp.MustCompile(`(?m)^(?:\pZ|\s|\x1b\[[0-9;]*m)*::|^(?:---|\+\+\+|~~~|\^\^\^)|` +
		`(?i:##\w*\[)|section_(?:start|end):|travis_(?:fold|time):`)
	f.Fuzz(func(t *testing.T, text string) {
		value := sourcetest.Must(json.Marshal(text))(t)
		for _, form := range []string{Visible(text), string(value), Text(text).Render(true), text} {
			out := outward(form)
			sourcetest.Equal(t, command.FindString(out), "", out)
			bare := ownControls().ReplaceAllString(out, "")
			if i := strings.IndexFunc(bare, func(r rune) bool {
				return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
			}); i >= 0 {
				t.Errorf("%q: %q has %q", text, out, bare[i:])
			}
			sourcetest.Equal(t, outward(out), out, "twice")
		}
		var was, is string
		sourcetest.Check(t, json.Unmarshal(value, &was))
		sourcetest.Check(t, json.Unmarshal([]byte(outward(string(value))), &is))
		sourcetest.Equal(t, is, was, "in JSON")
		sourcetest.Equal(t, Escaped(Visible(text)), Visible(text), "escaped")
	})
}
