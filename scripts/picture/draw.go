//go:build unix

package main

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The measures of the picture, in pixels.
const (
	letter  = 8.4 // width, at the size below
	size    = 14
	leading = 20
	margin  = 20
	bar     = 30 // of the window
	columns = 80 // at least
)

// A window has the same colors on light and on dark pages.
var (
	colors = map[string]string{"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#76e3ea"}
	paint  = regexp.MustCompile("\x1b\\[([0-9;]*)m")
)

// draw returns an SVG of a terminal window that shows text with its colors.
func draw(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	wide := columns
	for _, line := range lines {
		wide = max(wide, utf8.RuneCountInString(paint.ReplaceAllString(line, "")))
	}
	width, height := float64(wide)*letter+2*margin, bar+2*margin+leading*len(lines)-leading/2
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" `, width, height)
	fmt.Fprintf(&svg, `width="%.0f" height="%d" role="img">`+"\n", width, height)
	svg.WriteString("<title>larder install, run twice: the second run has nothing to do</title>\n")
	svg.WriteString(`<rect width="100%" height="100%" rx="8" fill="#161b22" stroke="#30363d"/>` + "\n")
	for i, fill := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&svg, `<circle cx="%d" cy="%d" r="6" fill="%s"/>`+"\n", margin+20*i, bar-10, fill)
	}
	fmt.Fprintf(&svg, `<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="%d" `+
		`fill="#e6edf3" xml:space="preserve">`+"\n", size)
	for i, line := range lines {
		drawLine(&svg, bar+margin+leading*i, line)
	}
	svg.WriteString("</g>\n</svg>\n")
	return svg.String()
}

// drawLine draws each span of a line where its first letter belongs, so that columns are
// aligned with any font.
func drawLine(svg *strings.Builder, y int, line string) {
	column, style := 0, ""
	span := func(text string) {
		if strings.TrimSpace(text) != "" {
			at := column + len(text) - len(strings.TrimLeft(text, " "))
			trimmed := strings.TrimSpace(text)
			length := letter * float64(utf8.RuneCountInString(trimmed))
			fmt.Fprintf(svg, `<text x="%.1f" y="%d" textLength="%.1f"%s>`, margin+letter*float64(at), y, length, style)
			_ = xml.EscapeText(svg, []byte(trimmed)) // a builder takes everything
			svg.WriteString("</text>\n")
		}
		column += utf8.RuneCountInString(text)
	}
	for {
		m := paint.FindStringSubmatchIndex(line)
		if m == nil {
			span(line)
			return
		}
		span(line[:m[0]])
		style = styleOf(line[m[2]:m[3]])
		line = line[m[1]:]
	}
}

// styleOf is the SVG's style for the parameters of a terminal's sequence.
func styleOf(parameters string) string {
	style := ""
	for _, p := range strings.Split(parameters, ";") {
		switch {
		case p == "1":
			style += ` font-weight="bold"`
		case p == "2":
			style += ` fill="#8b949e"`
		case colors[p] != "":
			style += fmt.Sprintf(` fill="%s"`, colors[p])
		}
	}
	return style
}
