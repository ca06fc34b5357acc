package ui

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Column describes a column of a table. A row with a single cell is a heading, which is not aligned.
type Column struct {
	Head    string              // shown on terminals, if any column of the table has one
	Name    string              // names a column in the note that it is not shown, and below rows; else its head does
	Right   bool                // align cells to the right, like numbers
	Shorten bool                // cells may be shortened in the middle to fit the terminal
	Brief   func(string) string // shortens cells first if the table does not fit the terminal; may be nil
	Drop    int                 // columns with the greatest number are omitted first to fit the terminal; 0 is never omitted
	Keep    bool                // omitted only if all cells are equal, so that the note has all of it
	Below   bool                // if the table does not fit the terminal, the cell is in a line below its row
}

// gap separates columns.
const gap = "  "

// Columns are omitted before a shortened cell has fewer letters than readable. It never has fewer than
// least.
const (
	readable = 12
	least    = 8
)

// Table returns rows as lines with aligned cells. A column without text is not shown. For a terminal of a
// width, Table adds the heads and fits the lines to the width: it shortens cells in the middle, then omits
// columns and names them in a note, and wraps what is still too wide. Width 0 means that there is no terminal.
func Table(columns []Column, rows [][]Span, width int) []Line {
	t := &table{columns: columns, rows: rows, omitted: make([]bool, len(columns))}
	if width > 0 && len(rows) > 0 && slices.ContainsFunc(columns, func(c Column) bool { return c.Head != "" }) {
		for _, c := range columns {
			t.heads = append(t.heads, Faint.Of(c.Head))
		}
	}
	t.measure()
	if width > 0 && t.total(math.MaxInt) > width {
		t.fit(width)
	}
	var lines []Line
	if t.heads != nil {
		lines = t.line(t.heads).Wrapped(width, 2)
	}
	for _, r := range rows {
		lines = append(lines, t.line(r).Wrapped(width, 2)...)
		if below := t.below(r); below != "" {
			lines = append(lines, Line{Faint.Of("  " + below)}.Wrapped(width, 2)...)
		}
	}
	if note := t.note(); note != "" {
		lines = append(lines, Line{Faint.Of(note)}.Wrapped(width, 2)...)
	}
	return lines
}

// A table is laid out for a terminal.
type table struct {
	columns []Column
	heads   []Span // nil if they are not shown
	rows    [][]Span
	widths  []int // of the columns; 0 if all cells are empty
	floors  []int // widths at which the cells of a column still differ
	omitted []bool
}

// texts returns the different cells of a column.
func (t *table) texts(column int) []string {
	different := map[string]bool{}
	for _, r := range t.rows {
		switch {
		case t.isHeading(r):
		case column < len(r):
			different[r[column].Text] = true
		default:
			different[""] = true
		}
	}
	return slices.Collect(maps.Keys(different))
}

func (t *table) isHeading(row []Span) bool { return len(row) == 1 && len(t.columns) > 1 }

// measure sets the widths of columns.
func (t *table) measure() {
	t.widths, t.floors = make([]int, len(t.columns)), make([]int, len(t.columns))
	for i, c := range t.columns {
		for _, text := range t.texts(i) {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(text))
		}
		if t.widths[i] > 0 && t.heads != nil {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c.Head))
		}
		t.floors[i] = t.widths[i]
	}
}

// findFloors sets the floors of columns that may be shortened.
func (t *table) findFloors() {
	for i, c := range t.columns {
		texts := t.texts(i)
		for c.Shorten && t.floors[i] > least && differ(texts, t.floors[i]-1) {
			t.floors[i]--
		}
	}
}

// differ reports whether different texts still differ when they are shortened to a width.
func differ(texts []string, width int) bool {
	short := map[string]bool{}
	for _, text := range texts {
		short[middle(text, width)] = true
	}
	return len(short) == len(texts)
}

// total returns the width of the table if cells are shortened to a number of letters.
func (t *table) total(letters int) int {
	total := -len(gap)
	for i, width := range t.widths {
		if width > 0 && !t.omitted[i] {
			total += max(t.floors[i], min(width, letters)) + len(gap)
		}
	}
	return total
}

// fit fits the table to a width as far as possible.
func (t *table) fit(width int) {
	for i, c := range t.columns {
		t.omitted[i] = c.Below
	}
	t.abbreviate()
	t.measure()
	t.findFloors()
	for i := t.next(); i >= 0 && t.total(readable) > width; i = t.next() {
		t.omitted[i] = true
	}
	t.shorten(width)
}

// abbreviate applies Column.Brief.
func (t *table) abbreviate() {
	for _, r := range t.rows {
		for i := range r {
			if brief := t.columns[i].Brief; brief != nil && !t.isHeading(r) {
				r[i].Text = brief(r[i].Text)
			}
		}
	}
}

// next returns the column to omit next, or -1. Columns with equal cells are the first, because the note
// has what they contain.
func (t *table) next() int {
	next, rank := -1, 0
	for i, c := range t.columns {
		equal := len(t.texts(i)) == 1
		if t.omitted[i] || t.widths[i] == 0 || c.Drop == 0 || c.label() == "" || c.Keep && !equal {
			continue
		}
		r := c.Drop
		if equal {
			r += 100
		}
		if r >= rank {
			next, rank = i, r
		}
	}
	return next
}

// shorten reduces the widths of columns that may be shortened, the widest first.
func (t *table) shorten(width int) {
	for excess := t.total(math.MaxInt) - width; excess > 0; excess-- {
		widest := -1
		for i, w := range t.widths {
			if !t.omitted[i] && w > t.floors[i] && (widest < 0 || w > t.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		t.widths[widest]--
	}
}

// label names the column in the note.
func (c Column) label() string { return cmp.Or(c.Name, strings.ToLower(c.Head)) }

// note names the omitted columns, with their contents if all cells are equal.
func (t *table) note() string {
	var names []string
	for i, c := range t.columns {
		if !t.omitted[i] || c.Below {
			continue
		}
		name := c.label()
		if texts := t.texts(i); len(texts) == 1 {
			name += " (" + texts[0] + ")"
		}
		names = append(names, name)
	}
	if names == nil {
		return ""
	}
	return "Not shown at this width: " + strings.Join(names, ", ")
}

// below returns the cells of a row that are below it.
func (t *table) below(row []Span) string {
	var texts []string
	for i, cell := range row {
		if t.omitted[i] && t.columns[i].Below && cell.Text != "" {
			texts = append(texts, t.columns[i].label()+" "+cell.Text)
		}
	}
	return strings.Join(texts, "; ")
}

// line returns the line of a row.
func (t *table) line(row []Span) (line Line) {
	if t.isHeading(row) {
		return row
	}
	for i, cell := range row {
		if t.widths[i] > 0 && !t.omitted[i] {
			line = append(line, t.columns[i].lay(cell, t.widths[i])...)
		}
	}
	return line.trimmed()
}

// lay returns a cell shortened or padded to a width, with the gap after it.
func (c Column) lay(cell Span, width int) Line {
	return c.pad(Line{cell.Paint.Of(middle(cell.Text, width))}, width)
}

// Wrapped wraps a line to a maximum number of letters, or not at all if that is 0. It breaks between words and indents
// lines after the first, as well as lines in the text, so that they cannot imitate lines that begin further left. It
// never breaks a word or a command line, so that users can copy it.
func (l Line) Wrapped(width, indent int) []Line {
	lines, column := []Line{nil}, 0
	for _, s := range l {
		text := strings.ReplaceAll(Visible(s.Text), "\n  ", "\n"+strings.Repeat(" ", indent))
		for i, part := range strings.Split(wrapped(text, width, column, indent), "\n") {
			if i > 0 {
				lines, column = append(lines, nil), 0
			}
			last := &lines[len(lines)-1]
			*last = append(*last, s.Paint.Of(part))
			column += utf8.RuneCountInString(part)
		}
	}
	for i := range lines {
		lines[i] = lines[i].trimmed()
	}
	return lines
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
var sizeUnit = regexp.MustCompile(`^[kMGTP]?B(?:/s)?[,;.)]*$`)

// wrapped wraps text that begins in a column, see [Line.Wrapped].
func wrapped(text string, width, column, indent int) string {
	if width <= indent || column+utf8.RuneCountInString(text) <= width {
		return text
	}
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteString("\n")
			column = 0
		}
		for rest := line; rest != ""; {
			words := unbroken(rest)
			rest = rest[len(words):]
			letters := utf8.RuneCountInString(words)
			if column > 0 && column+letters > width {
				words = strings.TrimLeft(words, " ")
				letters = utf8.RuneCountInString(words)
				b.WriteString("\n" + strings.Repeat(" ", indent))
				column = indent
			}
			b.WriteString(words)
			column += letters
		}
	}
	return b.String()
}

// unbroken returns the words at the beginning of a line that are not wrapped, with the blanks before them:
// a terminal's soft wrap keeps a command line whole, where a line break would run a part of it.
func unbroken(line string) string {
	end, last, free := 0, "", -1 // free is the number of further words of a command line, in one from 0
	for end < len(line) {
		start := len(line) - len(strings.TrimLeft(line[end:], " "))
		word, _, _ := strings.Cut(line[start:], " ")
		if last != "" && (start != end+1 || !tied(last, word, free)) {
			break
		}
		switch {
		case word == "larder":
			free = 2
		case free > 0:
			free--
		case isFlag(word):
			free = 0
		}
		end, last = start+len(word), word
	}
	return line[:end]
}

func isFlag(word string) bool { return strings.HasPrefix(word, "-") }

// tied reports whether a word is on the same line as the last one: the unit of a size, and in a command
// line flags, their values, and what looks like an argument.
func tied(last, word string, free int) bool {
	switch {
	case strings.Contains(",;:.)", last[len(last)-1:]), word == "and", word == "or":
		return false
	case last[len(last)-1] >= '0' && last[len(last)-1] <= '9' && sizeUnit.MatchString(word):
		return true
	case free > 0, isFlag(last):
		return true
	}
	return free == 0 && word[0] != '[' && (isFlag(word) || strings.ContainsAny(word, "/@|>.") || word == strings.ToUpper(word))
}

// Joined joins the lines of each paragraph of a text, for [Laid]. Lines that begin with a blank are no
// part of a paragraph.
func Joined(text string) string {
	var lines []string
	within := false // the last line belongs to a paragraph
	for line := range strings.SplitSeq(text, "\n") {
		begins := line != "" && line[0] != ' '
		if begins && within {
			lines[len(lines)-1] += " " + line
		} else {
			lines = append(lines, line)
		}
		within = begins
	}
	return strings.Join(lines, "\n")
}

// Laid wraps a page of text for a terminal of a width, or 0 for a file. Paragraphs are one line each, and
// become no wider than textWidth. The last cell of a row stays in its column, if there is room.
func Laid(page string, width int) string {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		lines[i] = laid(line, width)
	}
	return strings.Join(lines, "\n")
}

const (
	textWidth = 80
	leastCell = 24 // letters of a line that is wrapped in its column
	narrow    = 6  // the column of others
)

func laid(line string, width int) string {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	between := strings.LastIndex(text, gap)
	switch {
	case between < 0 && indent == 0:
		return wrapped(line, min(cmp.Or(width, textWidth), textWidth), 0, 0)
	case width == 0:
		return line
	case between >= 0:
		return laidRow(line, indent+between+len(gap), width)
	case indent+min(leastCell, utf8.RuneCountInString(text)) > width:
		indent = min(indent, narrow)
	}
	return wrapped(strings.Repeat(" ", indent)+text, width, 0, indent)
}

// laidRow wraps a row whose last cell begins at a byte.
func laidRow(row string, at, width int) string {
	first, last := row[:at], row[at:]
	column := utf8.RuneCountInString(first)
	if column+min(leastCell, utf8.RuneCountInString(last)) > width {
		column = min(column, hanging(row, min(leastCell, utf8.RuneCountInString(last)), width))
		first = wrapped(strings.TrimRight(first, " "), width, 0, column) + "\n" + strings.Repeat(" ", column)
	}
	return first + wrapped(last, width, column, column)
}

// hanging returns the column of lines that continue a row: after its label, if a cell has room there.
func hanging(row string, cell, width int) int {
	text := strings.TrimLeft(row, " ")
	column := len(row) - len(text)
	if label, rest, ok := strings.Cut(text, gap); ok && column == 0 {
		column = utf8.RuneCountInString(label) + len(text) - len(label) - len(strings.TrimLeft(rest, " "))
	}
	if column += 2; column <= narrow || column+cell > width {
		return narrow
	}
	return column
}
