package report

import "github.com/larder-cli/larder/cmd/larder/ui"

// A Column is a column of tables, with the paint of its cells.
type Column struct {
	Head  string
	Right bool // its cells are aligned to the right
	Paint ui.Paint
}

// A Cell is a cell of a row. It has its column, so that rows are all that a table consists of.
type Cell struct {
	ui.Column
	ui.Span
}

// The columns that several tables have.
var (
	ProviderColumn = Column{Head: "PROVIDER", Paint: ui.Bold}
	VersionColumn  = Column{Head: "VERSION"}
	platformColumn = Column{Head: "PLATFORM"}
	VerifiedColumn = Column{Head: "VERIFICATION"}
	SizeColumn     = Column{Head: "SIZE", Right: true}
)

// Of returns a cell of the column.
func (c Column) Of(text string) Cell { return c.Painted(c.Paint, text) }

// Painted returns a cell of the column in another paint.
func (c Column) Painted(paint ui.Paint, text string) Cell {
	return Cell{ui.Column{Head: c.Head, Right: c.Right}, paint.Of(text)}
}

// marked returns the cells of a row that begins with a mark, of a table without heads.
func marked(mark ui.Span, cells ...Cell) []Cell {
	row := []Cell{{Span: mark}}
	for _, c := range cells {
		c.Head = ""
		row = append(row, c)
	}
	return row
}

// lay returns rows as lines of a table for a terminal of a width, which has no room for IDs of keys: --verbose shows
// them. The longest row has all columns.
func lay[R celled](o *Output, rows []R, width int) []ui.Line {
	var columns []ui.Column
	var spans [][]ui.Span
	for _, r := range rows {
		var row []ui.Span
		for i, cell := range r.Cells(o) {
			if i == len(columns) {
				columns = append(columns, cell.Column)
			}
			text := o.Brief(cell.Text)
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
