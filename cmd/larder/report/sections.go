package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// A page is a text in sections, each with a label at the left.
type page struct {
	o      *Output
	all    bool // nothing is left out
	indent int  // where the rows of a section begin, after its label
	most   int  // rows of a section; --all shows the others
	text   strings.Builder
}

// A sectionRow is a row of a section.
type sectionRow struct {
	cells []string
	below []string // lines
}

// row returns a row.
func row(cells ...string) sectionRow { return sectionRow{cells: cells} }

// rows returns a row for each of some values.
func rows[V any](all []V, of func(int, V) sectionRow) (rows []sectionRow) {
	for i, v := range all {
		rows = append(rows, of(i, v))
	}
	return rows
}

// after lists texts after a label, or returns "" if there are none.
func after(label string, texts ...string) string {
	if list := strings.Join(texts, ", "); list != "" {
		return label + list
	}
	return ""
}

// filled returns the texts that are not empty.
func filled(texts ...string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// line adds a line.
func (p *page) line(text string) { p.text.WriteString(text + "\n") }

// section adds rows with a label, whose cells are aligned. It leaves out the last rows if there are too many.
func (p *page) section(label string, rows ...sectionRow) {
	left := 0
	if !p.all && len(rows) > p.most {
		left, rows = len(rows)-p.most, rows[:p.most]
	}
	var cells [][]string
	for _, r := range rows {
		cells = append(cells, slices.Clone(r.cells))
		for i, cell := range r.cells {
			cells[len(cells)-1][i] = inOneLine(p.o.address(cell))
		}
	}
	add := func(text string) {
		p.line(fmt.Sprintf("%-*s%s", p.indent, label, text))
		label = ""
	}
	for i, text := range ui.Columns(cells) {
		add(text)
		for _, below := range rows[i].below {
			add("  " + inOneLine(p.o.address(below)))
		}
	}
	if left > 0 {
		add(fmt.Sprintf("and %d more: --all shows them", left))
	}
}

// inOneLine returns text like [ui.Visible], with line breaks as \n, so that no name can imitate a row.
func inOneLine(text string) string { return strings.ReplaceAll(ui.Visible(text), "\n  ", `\n`) }
