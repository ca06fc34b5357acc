package fetch

import (
	"fmt"
	"strings"
	"unicode"
)

// Printable is text from a server as it may reach a terminal: not too long, and
// without control characters other than line breaks.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + " …"
	}
	return s
}

// QuoteSome quotes the first few of many texts from a server, and says how many
// more there are.
func QuoteSome(texts []string) string {
	var quoted []string
	for _, text := range texts[:min(len(texts), maxQuoted)] {
		quoted = append(quoted, fmt.Sprintf("%.40q", text))
	}
	if more := len(texts) - maxQuoted; more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(quoted, ", ")
}
