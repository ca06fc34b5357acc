package ui

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

const (
	soon       = 250 * time.Millisecond // shorter work has no bars
	wideBar    = 20                     // columns of a bar
	narrowBar  = 10                     // on terminals with fewer columns than barsFrom
	barsFrom   = 79                     // excluding the last column
	summaryMax = 240                    // of a line without a terminal
)

// A barRow is a line of the display before it is fitted to the terminal. It has a bar and
// amounts, or a state.
type barRow struct {
	name, state, extra string
	done, size         int64 // the progress that the bar shows; no bar if the size is 0
	amount             amount
}

// barColumns are the columns of rows with bars. On narrow terminals the last ones are omitted
// first.
var barColumns = []Column{
	{Shorten: true}, {Drop: 1}, {Right: true, Drop: 2}, {Right: true, Drop: 3}, {Right: true, Drop: 4}, {Drop: 5}, {Drop: 6},
}

// lines returns the display for a terminal of a size: a line for each item, and a total. They
// are never wider or more than the terminal allows.
func (b *board) lines(width, height int) []string { return b.drawn(width, height, false) }

// drawn returns lines, with colours if the terminal has them.
func (b *board) drawn(width, height int, colours bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if len(b.items) == 0 || now.Sub(b.begun) < soon {
		return nil
	}
	items, more := b.shown(max(0, height-2)) // one line for the total, one for the cursor
	var rows []barRow
	for _, it := range items {
		r := barRow{name: b.name(it), state: oneLine(b.state(it, now)), extra: oneLine(b.extra(it)), done: it.done, size: it.size}
		if r.state == "" {
			r.amount = amountOf(it.done, it.size, it.size > 0, it.meter.rate(now))
		}
		rows = append(rows, r)
	}
	if alone := len(items) == 1 && len(b.items) == 1 && items[0].id == (sources.PackageID{}); !alone {
		r := barRow{name: b.packages(), extra: b.rest(more)}
		done, size, known := b.bytes()
		if size > 0 {
			r.amount = amountOf(done, size, known, b.meter.rate(now))
		}
		if known {
			r.done, r.size = done, size
		}
		rows = append(rows, r)
	}
	var lines []string
	for _, line := range fit(rows, width-1, colours) { // some terminals wrap after a letter in the last column
		lines = append(lines, line.render(colours))
	}
	return lines
}

// fit aligns rows in a number of columns.
func fit(rows []barRow, width int, colours bool) []Line {
	barWidth := wideBar
	if width < barsFrom {
		barWidth = narrowBar
	}
	widths := make([]int, len(barColumns))
	cells := make([][]Line, len(rows))
	for i, r := range rows {
		cells[i] = r.cells(barWidth, colours)
		for j, cell := range cells[i] {
			if r.state == "" || j == 0 {
				widths[j] = max(widths[j], utf8.RuneCountInString(cell.plain()))
			}
		}
	}
	room := max(width/2, 21) // for names; the rest is for bar and percentage
	if width < 2*narrowBar+len("100%") {
		room = width - len(gap) - len("100%")
	}
	widths[0] = min(widths[0], max(room, 0))
	shown := fitColumns(barColumns, widths, max(width, 1))
	lines := make([]Line, len(rows))
	for i, r := range rows {
		for j, cell := range cells[i] {
			switch {
			case r.state != "" && j > 0:
			case j == 0:
				lines[i] = append(lines[i], barColumns[0].lay(cell[0], widths[0])...)
			case shown[j]:
				lines[i] = append(lines[i], barColumns[j].pad(cell, widths[j])...)
			}
		}
		if r.state != "" && width-widths[0] > narrowBar {
			lines[i] = append(lines[i], Span{Text: strings.TrimRight(r.state+gap+r.extra, " ")})
		}
		lines[i] = lines[i].trimmed().cut(width)
	}
	return lines
}

// cells returns the cells of a row with a bar.
func (r barRow) cells(barWidth int, colours bool) []Line {
	drawn := Line{}
	if r.size > 0 {
		drawn = bar(min(r.done, r.size), r.size, barWidth, colours)
	}
	return []Line{
		{{r.name, Bold}}, drawn, Text(percent(r.done, r.size)),
		Text(r.amount.bytes), Text(r.amount.rate), Text(r.amount.left), {{r.extra, Faint}},
	}
}

// pad returns a cell of several paints, padded to a width, with the gap after it.
func (c Column) pad(cell Line, width int) Line {
	space := Span{Text: strings.Repeat(" ", max(0, width-utf8.RuneCountInString(cell.plain())))}
	if c.Right {
		return append(append(Line{space}, cell...), Span{Text: gap})
	}
	return append(append(Line{}, cell...), space, Span{Text: gap})
}

// cut returns the beginning of a line that fits a number of columns, if each letter takes one
// column. The display disables wrapping in case letters are wider.
func (l Line) cut(columns int) Line {
	left := max(0, columns)
	if utf8.RuneCountInString(l.plain()) <= left {
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

// bar draws the done part of a size. The rest is faint with colours, and otherwise a thin line.
func bar(done, size int64, width int, colours bool) Line {
	halves := int(math.Floor(float64(2*width) * float64(done) / float64(size)))
	full := strings.Repeat("━", halves/2)
	if halves%2 > 0 {
		full += "╸"
	}
	rest := "─"
	if colours {
		rest = "━"
	}
	return Line{{full, Added}, {strings.Repeat(rest, width-utf8.RuneCountInString(full)), Faint}}
}

// percent returns a percentage, or "" if the size is unknown.
func percent(done, size int64) string {
	if size <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", int(float64(min(done, size))/float64(size)*100))
}

// cut returns the beginning of text that fits a number of columns, if each letter takes one
// column.
func cut(text string, columns int) string {
	letters := []rune(text)
	return string(letters[:min(len(letters), max(0, columns))])
}

// summary returns one line about all work in progress, or "" if there is none.
func (b *board) summary() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	items, _ := b.shown(len(b.items))
	if len(b.items) == 0 {
		return ""
	}
	var arrived amount
	if done, size, known := b.bytes(); size > 0 {
		arrived = amountOf(done, size, known, b.meter.rate(now))
	}
	line := together(b.packages(), arrived.String(), b.rest(0))
	for i, it := range items {
		if it.step == verifying {
			continue
		}
		about := b.name(it) + " "
		if it.size > 0 && it.step == acquire.Arriving && !now.Before(it.pause) {
			about += percent(it.done, it.size)
		} else {
			about += cut(oneLine(b.state(it, now)), 60)
		}
		if len(line)+len(about) > summaryMax {
			return line + fmt.Sprintf(", and %d more", len(items)-i)
		}
		line += map[bool]string{true: "; ", false: ", "}[i == 0] + about
	}
	return line
}
