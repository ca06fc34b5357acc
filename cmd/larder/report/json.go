package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// visibleJSON escapes the C1 controls and the controls of bidirectional text in JSON, which the
// encoder does not escape.
func visibleJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
