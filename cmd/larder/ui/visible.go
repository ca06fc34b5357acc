package ui

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible returns text without terminal control characters and other characters that show nothing: names of files and
// text from servers may contain them. It indents lines after the first, so that they cannot imitate messages of larder.
func Visible(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r != '\t' && hidden(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString("\n  ")
		case r == '\t' || !hidden(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// hidden reports whether a character shows nothing, changes the text around it, or is a blank that isn't a space.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) ||
		r > unicode.MaxLatin1 && unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Escaped returns a document, whose form has escapes of its own, with hidden characters as \u202e. Tabs and line breaks
// stay.
func Escaped(document string) string {
	odd := func(r rune) bool { return r != '\n' && r != '\t' && hidden(r) }
	if !strings.ContainsFunc(document, odd) {
		return document
	}
	var b strings.Builder
	for _, r := range document {
		if !odd(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// ownControls are the control characters that larder writes on purpose: colors, and the line breaks of a patch.
var ownControls = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x1b\[[0-9;]*m|\r\n`) })

// logCommand matches what the log of a CI system takes as a command or as the beginning of a section: those of GitHub
// and Azure Pipelines ("::", "##["), Azure Pipelines and TeamCity ("##vso[", "##teamcity["), Buildkite, GitLab and
// Travis CI. Text without one of logCommandParts contains none, which is found fast.
var (
	logCommand = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\n(?:(?:[ \t]|\x1b\[[0-9;]*m)*::|(?:\x1b\[[0-9;]*m)*(?:---|\+\+\+|~~~|\^\^\^))|` +
			`##\w*\[|section_(?:start|end):|travis_(?:fold|time):`)
	})
	logCommandParts = []string{"::", "---", "+++", "~~~", "^^^", "##", "section_", "travis_"}
)

// outward returns text, which begins a line, as it may leave the process: its last defense, in each form of the output.
// Only colors and line breaks remain of hidden characters, and the last character of each command for a log is escaped,
// as JSON does it.
func outward(text string) string {
	text = "\n" + text
	if !strings.ContainsAny(text, "\x1b\r") { // searching for what larder writes on purpose is slow
		text = Escaped(text)
	} else {
		var b strings.Builder
		at := 0
		for _, own := range ownControls().FindAllStringIndex(text, -1) {
			b.WriteString(Escaped(text[at:own[0]]) + text[own[0]:own[1]])
			at = own[1]
		}
		text = b.String() + Escaped(text[at:])
	}
	if slices.ContainsFunc(logCommandParts, func(part string) bool { return strings.Contains(text, part) }) {
		text = logCommand().ReplaceAllStringFunc(text, func(found string) string {
			last := len(found) - 1
			return fmt.Sprintf(`%s\u%04x`, found[:last], found[last])
		})
	}
	return text[1:]
}
