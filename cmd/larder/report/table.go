package report

import (
	"cmp"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// A column is a column of tables, with the paint of its cells.
type column struct {
	ui.Column
	ui.Paint
}

// A cell is a cell of a row. It has its column, so that rows are all that a table consists of.
type cell struct {
	ui.Column
	ui.Span
}

// The columns that several tables have. A narrow terminal omits the same ones first in all of them.
var (
	providerColumn     = column{ui.Column{Head: "PROVIDER", Shorten: true}, ui.Bold}
	versionColumn      = column{Column: ui.Column{Head: "VERSION"}}
	platformColumn     = column{Column: ui.Column{Head: "PLATFORM", Keep: true, Drop: 1}}
	verifiedColumn     = column{Column: ui.Column{Head: "VERIFIED AS", Brief: withoutKey, Drop: 2}}
	verificationColumn = column{Column: ui.Column{Name: "verification", Brief: withoutKey, Drop: 2}}
	sizeColumn         = column{Column: ui.Column{Head: "SIZE", Right: true, Drop: 4}}
	signerColumn       = column{Column: ui.Column{Name: "signer", Drop: 6}, Paint: ui.Faint}
)

// of returns a cell of the column.
func (c column) of(text string) cell { return cell{c.Column, c.Of(text)} }

// marked returns the cells of a row that begins with a mark, of a table without heads.
func marked(mark ui.Span, cells ...cell) []cell {
	return append([]cell{{Span: mark}}, headless(cells...)...)
}

// headless returns cells of a table without heads.
func headless(cells ...cell) []cell {
	for i := range cells {
		c := &cells[i]
		c.Name, c.Head = cmp.Or(c.Name, strings.ToLower(c.Head)), ""
	}
	return cells
}

// cells returns the cells of rows, with addresses in full.
func cells[R celled](o *Output, rows []R) (all [][]cell) {
	full := o.inFull()
	for _, r := range rows {
		if row := r.Cells(full); row != nil {
			all = append(all, row)
			for _, cell := range row {
				o.mentions(cell.Text)
			}
		}
	}
	return all
}

// lay returns rows as lines of a table, with short addresses. The longest row has all columns.
func (o *Output) lay(rows [][]cell, width int) []ui.Line {
	var columns []ui.Column
	spans := make([][]ui.Span, len(rows))
	for i, row := range rows {
		for j, cell := range row {
			if j == len(columns) {
				columns = append(columns, cell.Column)
			}
			spans[i] = append(spans[i], cell.Span)
		}
		spans[i] = o.addresses(spans[i])
	}
	return ui.Table(columns, spans, width)
}
