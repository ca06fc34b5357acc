package ui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	wideBar   = 20 // columns of a bar
	narrowBar = 10 // on terminals with fewer columns than barsFrom
	barsFrom  = 79 // excluding the last column
)

// A Bar is a line of the progress display before it is fitted to the terminal. It has a bar and
// amounts, or a state.
type Bar struct {
	Name, State, Extra string
	Done, Size         int64 // the progress that the bar shows; no bar if the size is 0
	Amount             Amount
}

// barColumns are the columns of rows with bars. On narrow terminals the last ones are omitted
// first.
var barColumns = []Column{{}, {}, {Right: true}, {Right: true}, {Right: true}, {}, {}}

// Bars returns the lines of a display for a number of columns. They are never wider.
func Bars(rows []Bar, width int, colors bool) []string {
	width-- // some terminals wrap after a letter in the last column
	barWidth := wideBar
	if width < barsFrom {
		barWidth = narrowBar
	}
	widths := make([]int, len(barColumns)) // 0 for those that are not shown
	cells := make([][]Line, len(rows))
	for i, r := range rows {
		cells[i] = r.cells(barWidth, colors)
		for j, cell := range cells[i] {
			if r.State == "" || j == 0 {
				widths[j] = max(widths[j], utf8.RuneCountInString(cell.Plain()))
			}
		}
	}
	room := max(width/2, 21) // for names; the rest is for bar and percentage
	if width < 2*narrowBar+len("100%") {
		room = width - len(gap) - len("100%")
	}
	widths[0] = min(widths[0], max(room, 0))
	total := widths[0]
	for i, w := range widths[1:] {
		if total+len(gap)+w > width {
			widths[i+1] = 0
		} else if w > 0 {
			total += len(gap) + w
		}
	}
	widths[0] = max(min(widths[0], least), min(widths[0], max(width, 1)))
	lines := make([]string, len(rows))
	for i, r := range rows {
		line := barColumns[0].lay(cells[i][0][0], widths[0])
		for j, cell := range cells[i][1:] {
			if r.State == "" && widths[j+1] > 0 {
				line = append(line, barColumns[j+1].pad(cell, widths[j+1])...)
			}
		}
		if r.State != "" && width-widths[0] > narrowBar {
			line = append(line, Span{Text: strings.TrimRight(r.State+gap+r.Extra, " ")})
		}
		lines[i] = line.trimmed().cut(width).Render(colors)
	}
	return lines
}

// cells returns the cells of a row with a bar.
func (r Bar) cells(barWidth int, colors bool) []Line {
	drawn := Line{}
	if r.Size > 0 {
		drawn = bar(min(r.Done, r.Size), r.Size, barWidth, colors)
	}
	return []Line{
		{{r.Name, Bold}}, drawn, Text(Percent(r.Done, r.Size)),
		Text(r.Amount.Bytes), Text(r.Amount.Rate), Text(r.Amount.Left), {{r.Extra, Faint}},
	}
}

// pad returns a cell of several paints, padded to a width, with the gap after it.
func (c Column) pad(cell Line, width int) Line {
	space := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(cell.Plain())))
	if c.Right {
		return slices.Concat(Line{{Text: space}}, cell, Line{{Text: gap}})
	}
	return append(slices.Clip(cell), Span{Text: space + gap})
}

// cut returns the beginning of a line that fits a number of columns, if each letter takes one
// column. The display disables wrapping in case letters are wider.
func (l Line) cut(columns int) Line {
	left := max(0, columns)
	if utf8.RuneCountInString(l.Plain()) <= left {
		return l
	}
	var short Line
	for _, s := range l {
		letters := []rune(s.Text)
		if len(letters) >= left {
			if left > 0 {
				short = append(short, Span{string(letters[:left-1]) + "…", s.Paint})
			}
			return short
		}
		short, left = append(short, s), left-len(letters)
	}
	return short
}

// bar draws the done part of a size. The rest is faint with colors, and otherwise a thin line.
func bar(done, size int64, width int, colors bool) Line {
	halves := int(math.Floor(float64(2*width) * float64(done) / float64(size)))
	full := strings.Repeat("━", halves/2)
	if halves%2 > 0 {
		full += "╸"
	}
	rest := "─"
	if colors {
		rest = "━"
	}
	return Line{{full, Added}, {strings.Repeat(rest, width-utf8.RuneCountInString(full)), Faint}}
}

// Percent returns a percentage, or "" if the size is unknown.
func Percent(done, size int64) string {
	if size <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", int(float64(min(done, size))/float64(size)*100))
}
