package report

import "github.com/larder-cli/larder/cmd/larder/ui"

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

// The columns that several tables have.
var (
	providerColumn = column{ui.Column{Head: "PROVIDER"}, ui.Bold}
	versionColumn  = column{Column: ui.Column{Head: "VERSION"}}
	platformColumn = column{Column: ui.Column{Head: "PLATFORM"}}
	verifiedColumn = column{Column: ui.Column{Head: "VERIFIED AS"}}
	sizeColumn     = column{Column: ui.Column{Head: "SIZE", Right: true}}
	usedColumn     = column{ui.Column{Head: "LAST USED"}, ui.Faint}
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
		cells[i].Head = ""
	}
	return cells
}

// lay returns rows as lines of a table for a terminal of a width, which has no room for IDs of keys: --verbose shows them.
// The longest row has all columns.
func lay[R celled](o *Output, rows []R, width int) []ui.Line {
	var columns []ui.Column
	var spans [][]ui.Span
	for _, r := range rows {
		var row []ui.Span
		for i, cell := range r.Cells(o) {
			if i == len(columns) {
				columns = append(columns, cell.Column)
			}
			text := o.address(cell.Text)
			if width > 0 && o.Level < Verbose {
				text = withoutKey(text)
			}
			row = append(row, cell.Paint.Of(text))
		}
		if row != nil {
			spans = append(spans, row)
		}
	}
	return ui.Table(columns, spans, width)
}
