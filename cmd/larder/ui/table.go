package ui

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Column is a column of a table. A row with a single cell is a heading, which is not aligned.
type Column struct {
	Head  string // shown on terminals, if any column of the table has one
	Right bool   // align cells to the right, like numbers
}

// gap separates columns.
const gap = "  "

// Table returns rows as lines with aligned cells. A column without text is not shown. For a terminal of a width, Table
// adds the heads, puts the last columns that don't fit below their rows, and wraps what is still too wide. Width 0
// means that there is no terminal.
func Table(columns []Column, rows [][]Span, width int) (lines []Line) {
	widths := make([]int, len(columns))
	for _, row := range rows {
		for i, cell := range row {
			if len(row) > 1 || len(columns) == 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
			}
		}
	}
	var heads []Span
	if width > 0 && len(rows) > 0 && slices.ContainsFunc(columns, func(c Column) bool { return c.Head != "" }) {
		for i, c := range columns {
			if heads = append(heads, Faint.Of(c.Head)); widths[i] > 0 {
				widths[i] = max(widths[i], utf8.RuneCountInString(c.Head))
			}
		}
	}
	fit, total := 0, 0
	for fit < len(columns) && (fit == 0 || width == 0 || total+widths[fit] <= width) {
		if widths[fit] > 0 {
			total += widths[fit] + len(gap)
		}
		fit++
	}
	if heads != nil {
		lines = aligned(columns, heads[:fit], widths).Wrapped(width, 2)
	}
	for _, row := range rows {
		if len(row) == 1 && len(columns) > 1 {
			lines = append(lines, Line(row).Wrapped(width, 2)...)
			continue
		}
		end := min(fit, len(row))
		lines = append(lines, aligned(columns, row[:end], widths).Wrapped(width, 2)...)
		var below []string
		for i, cell := range row[end:] {
			if cell.Text != "" {
				below = append(below, strings.TrimSpace(strings.ToLower(columns[end+i].Head)+" "+cell.Text))
			}
		}
		if below != nil {
			lines = append(lines, Line{Faint.Of(gap + strings.Join(below, ", "))}.Wrapped(width, 2)...)
		}
	}
	return lines
}

// aligned returns cells padded to the widths of their columns. A column of width 0 is not shown.
func aligned(columns []Column, cells []Span, widths []int) (line Line) {
	for i, cell := range cells {
		if widths[i] == 0 {
			continue
		}
		space := Span{Text: strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell.Text))}
		if columns[i].Right {
			line = append(line, space, cell)
		} else {
			line = append(line, cell, space)
		}
		line = append(line, Span{Text: gap})
	}
	return line.trimmed()
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

// isSizeUnit reports whether a word is the unit of a size, which must be on the same line as its number, and adjacent
// punctuation.
func isSizeUnit(word string) bool {
	prefix, ok := strings.CutSuffix(strings.TrimSuffix(strings.TrimRight(word, ",;.)"), "/s"), "B")
	return ok && len(prefix) < 2 && strings.Contains("kMGTP", prefix)
}

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
	case last[len(last)-1] >= '0' && last[len(last)-1] <= '9' && isSizeUnit(word):
		return true
	case free > 0, isFlag(last):
		return true
	}
	argument := isFlag(word) || strings.ContainsAny(word, "/@|>.") || word == strings.ToUpper(word)
	return free == 0 && word[0] != '[' && argument
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
		column = narrow
		first = wrapped(strings.TrimRight(first, " "), width, 0, column) + "\n" + strings.Repeat(" ", column)
	}
	return first + wrapped(last, width, column, column)
}
