package ui

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// A Column describes a column of a table.
type Column struct {
	Head    string              // shown on terminals, if any column of the table has one
	Right   bool                // align cells to the right, like numbers
	Shorten bool                // cells may be shortened in the middle to fit the terminal
	Brief   func(string) string // shortens cells first if the table does not fit the terminal; may be nil
	Drop    int                 // columns with the greatest number are omitted first to fit the terminal; 0 is never omitted
}

// A Row is a row of a table.
type Row struct {
	Cells []Span
	Value any // for --json
}

// gap separates columns.
const gap = "  "

// Grid writes a table, each row as a result. With --json, it writes the values of the rows. On a
// terminal it shows the headers and fits the table to the width. Otherwise it omits and shortens
// nothing.
func (o *Output) Grid(kind string, columns []Column, rows []Row) {
	if o.JSON {
		for _, r := range rows {
			o.Object(kind, r.Value)
		}
		return
	}
	for i := range rows {
		rows[i].Cells = o.addresses(rows[i].Cells)
	}
	width := o.Width()
	if width > 0 && hasHeads(columns) && len(rows) > 0 {
		head := Row{Cells: make([]Span, len(columns))}
		for i, c := range columns {
			head.Cells[i] = Span{c.Head, Faint}
		}
		rows = append([]Row{head}, rows...)
	}
	for _, line := range layOut(columns, rows, width) {
		o.result(line)
	}
}

// Tell writes a table to standard error, unless --quiet or --json is set.
func (o *Output) Tell(columns []Column, rows []Row) {
	width, _ := terminalSize(o.Stderr)
	for _, line := range layOut(columns, rows, width) {
		o.Say("%s", line.plain())
	}
}

func hasHeads(columns []Column) bool {
	for _, c := range columns {
		if c.Head != "" {
			return true
		}
	}
	return false
}

// layOut returns the rows as lines with aligned cells. They fit the columns of a terminal; 0
// columns means no limit.
func layOut(columns []Column, rows []Row, width int) []Line {
	if width > 0 && tableWidth(columns, rows) > width {
		abbreviate(columns, rows)
	}
	widths := make([]int, len(columns))
	for _, r := range rows {
		for i, cell := range r.Cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	shown := fitColumns(columns, widths, width)
	lines := make([]Line, len(rows))
	for i, r := range rows {
		for j, cell := range r.Cells {
			if shown[j] {
				lines[i] = append(lines[i], columns[j].lay(cell, widths[j])...)
			}
		}
		lines[i] = lines[i].trimmed()
	}
	return lines
}

// abbreviate applies Column.Brief.
func abbreviate(columns []Column, rows []Row) {
	for _, r := range rows {
		for i, c := range columns {
			if c.Brief != nil && i < len(r.Cells) {
				r.Cells[i].Text = c.Brief(r.Cells[i].Text)
			}
		}
	}
}

// tableWidth returns the width of a complete table in columns.
func tableWidth(columns []Column, rows []Row) int {
	total := -len(gap)
	for i := range columns {
		width := 0
		for _, r := range rows {
			if i < len(r.Cells) {
				width = max(width, utf8.RuneCountInString(r.Cells[i].Text))
			}
		}
		if width > 0 {
			total += width + len(gap)
		}
	}
	return total
}

// fitColumns selects the columns to show, and reduces the widths of those that may be shortened,
// the widest first.
func fitColumns(columns []Column, widths []int, width int) (shown []bool) {
	const least = 8 // columns of a shortened cell
	shown = make([]bool, len(columns))
	total := -len(gap)
	for i, w := range widths {
		if shown[i] = w > 0; shown[i] {
			total += w + len(gap)
		}
	}
	for width > 0 && total > width {
		drop := 0
		for i, c := range columns {
			if shown[i] && c.Drop > 0 && c.Drop >= columns[drop].Drop {
				drop = i
			}
		}
		if !shown[drop] || columns[drop].Drop == 0 {
			break
		}
		shown[drop] = false
		total -= widths[drop] + len(gap)
	}
	for i, w := range widths { // a narrow column may fit where a wide one did not
		if !shown[i] && w > 0 && total+w+len(gap) <= width {
			shown[i] = true
			total += w + len(gap)
		}
	}
	for ; width > 0 && total > width; total-- {
		widest := -1
		for i, c := range columns {
			if shown[i] && c.Shorten && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return shown
}

// lay returns a cell padded to a width, with the gap after it.
func (c Column) lay(cell Span, width int) Line {
	cell.Text = middle(cell.Text, width)
	space := strings.Repeat(" ", width-utf8.RuneCountInString(cell.Text))
	if c.Right {
		return Line{{Text: space}, cell, {Text: gap}}
	}
	return Line{cell, {Text: space + gap}}
}

// trimmed returns the line without trailing spaces.
func (l Line) trimmed() Line {
	for len(l) > 0 {
		last := &l[len(l)-1]
		if last.Text = strings.TrimRight(last.Text, " "); last.Text != "" {
			break
		}
		l = l[:len(l)-1]
	}
	return l
}

// middle shortens text to a number of letters by omitting its middle.
func middle(text string, width int) string {
	letters := []rune(text)
	if len(letters) <= width {
		return text
	}
	if width < 2 {
		return string(letters[:max(0, width)])
	}
	front := (width - 1) / 2
	return string(letters[:front]) + "…" + string(letters[len(letters)-(width-1-front):])
}

// sizeUnit matches the unit of a size, which must be on the same line as its number, and
// adjacent punctuation.
var sizeUnit = regexp.MustCompile(`^ [kMGTP]?B(?:/s)?[,;.)]*`)

// wrapped wraps text that begins in a column into lines with a maximum number of letters. It
// breaks between words and indents lines after the first. It never breaks a word, so that users
// can copy it.
func wrapped(text string, width, column int) string {
	const indent = "  "
	if width <= len(indent) || column+utf8.RuneCountInString(text) <= width {
		return text
	}
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteString("\n")
			column = 0
		}
		for rest := line; rest != ""; {
			word := rest
			if end := strings.IndexByte(strings.TrimLeft(rest, " "), ' '); end >= 0 {
				word = rest[:len(rest)-len(strings.TrimLeft(rest, " "))+end]
			}
			rest = rest[len(word):]
			if unit := sizeUnit.FindString(rest); unit != "" && word[len(word)-1] >= '0' && word[len(word)-1] <= '9' {
				word, rest = word+unit, rest[len(unit):]
			}
			letters := utf8.RuneCountInString(word)
			if column > 0 && column+letters > width {
				word = strings.TrimLeft(word, " ")
				letters = utf8.RuneCountInString(word)
				b.WriteString("\n" + indent)
				column = len(indent)
			}
			b.WriteString(word)
			column += letters
		}
	}
	return b.String()
}
