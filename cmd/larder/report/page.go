package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// A Page is a text in sections, each with a label at the left.
type Page struct {
	out    *Output
	indent int  // where the rows of a section begin, after its label
	most   int  // rows of a section; --all shows the others
	all    bool // nothing is left out
	text   strings.Builder
}

// Page returns an empty page whose rows begin in a column. Its sections have a number of rows at most, unless all is
// set.
func (o *Output) Page(indent, most int, all bool) *Page {
	return &Page{out: o, indent: indent, most: most, all: all}
}

// An Item is a row of a page, with lines below it.
type Item struct{ Cells, Below []string }

// ItemOf returns a row.
func ItemOf(cells ...string) Item { return Item{Cells: cells} }

// Labeled lists texts after a label, or returns "" if there are none.
func Labeled(label string, texts ...string) string {
	if list := strings.Join(texts, ", "); list != "" {
		return label + list
	}
	return ""
}

// Filled returns the texts that are not empty.
func Filled(texts ...string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// Heading adds a line without a label.
func (p *Page) Heading(text string) { p.text.WriteString(inOneLine(text) + "\n") }

// Section adds rows with a label, whose cells are aligned. It leaves out the last rows if there are too many.
func (p *Page) Section(label string, rows ...Item) {
	shown := rows
	if !p.all {
		shown = rows[:min(len(rows), p.most)]
	}
	cells := make([][]string, len(shown))
	for i, r := range shown {
		for _, cell := range r.Cells {
			cells[i] = append(cells[i], p.shorten(cell))
		}
	}
	add := func(text string) {
		fmt.Fprintf(&p.text, "%-*s%s\n", p.indent, label, text)
		label = ""
	}
	for i, text := range ui.Columns(cells) {
		add(text)
		for _, below := range shown[i].Below {
			add("  " + p.shorten(below))
		}
	}
	if left := len(rows) - len(shown); left > 0 {
		add(fmt.Sprintf("and %d more: --all shows them", left))
	}
}

// shorten makes the paths and addresses in a text short.
func (p *Page) shorten(text string) string { return inOneLine(p.out.Brief(p.out.Shorten(text))) }

// Show writes the page as a result, or objects with the same contents.
func (p *Page) Show(objects ...Object) {
	p.out.ShowText(ui.Laid(p.text.String(), p.out.Width()), objects...)
}

// inOneLine returns text like [ui.Visible], with line breaks as \n, so that no name can imitate a row.
func inOneLine(text string) string { return strings.ReplaceAll(ui.Visible(text), "\n  ", `\n`) }
