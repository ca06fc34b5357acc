package ui

import (
	"os"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
)

// A Paint is a style of text where colors are shown.
type Paint string

// The paints, as the parameters of the terminal's sequence for them.
const (
	Plain   Paint = ""
	Added   Paint = "32" // green
	Changed Paint = "33" // yellow
	Removed Paint = "31" // red, for errors too
	Faint   Paint = "2"  // secondary text
	Bold    Paint = "1"  // names and headings
)

// A Span is text in one paint.
type Span struct {
	Text  string
	Paint Paint
}

// Of returns text in the paint.
func (p Paint) Of(text string) Span { return Span{text, p} }

// A Line is text in several paints.
type Line []Span

// Text returns a line without paint.
func Text(text string) Line { return Line{{Text: text}} }

// Render returns the line as it is written. Its text contains no terminal control sequences.
func (l Line) Render(colors bool) string {
	var b strings.Builder
	for _, s := range l {
		text := Visible(s.Text)
		if colors && s.Paint != Plain && text != "" {
			text = "\x1b[" + string(s.Paint) + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	return b.String()
}

// A ColorMode selects when output is colored.
type ColorMode string

// The color modes.
const (
	ColorAuto   ColorMode = "auto" // on a terminal
	ColorAlways ColorMode = "always"
	ColorNever  ColorMode = "never"
)

// ColorModes are all color modes, the default first.
var ColorModes = []ColorMode{ColorAuto, ColorAlways, ColorNever}

// Shows reports whether output to w is colored.
func (m ColorMode) Shows(w any) bool {
	switch m {
	case ColorAlways:
		return true
	case ColorNever:
		return false
	}
	f, ok := w.(*os.File)
	return ok && IsTerminal(f) && cliconfig.Interprets(f)
}
