package main

import (
	"strconv"
	"strings"
	"unicode"
)

// visible is text that does nothing to a terminal but appear on it: names of
// files and words of servers may be in it. What follows a line break is
// indented, so that it does not pass for a line of ours.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString("\n  ")
		case r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
