package report

import (
	"github.com/larder-cli/larder/cmd/larder/report/board"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// followed returns the board, and starts the display if the user has not disabled it.
func (o *Output) followed() *board.Board {
	if !o.JSON && o.Level >= Normal {
		o.progress.Begin(o.board, o.Color, func(line string) { o.ForRequest(0).Say("%s", line) })
	}
	return o.board
}

// A Report reports how many bytes are done, and the total.
type Report = func(done, of int64)

// Work runs a function that works on a whole store, and shows the progress that it reports.
func Work[T any](o *Output, work func(Report) (T, error)) (T, error) {
	b := o.followed()
	b.Work(0, 0) // the first package may take long
	defer b.End(sources.PackageID{})
	return work(b.Work)
}

// Forget removes a package from the progress display.
func (o *Output) Forget(id sources.PackageID) { o.followed().End(id) }

// Width returns the number of columns of the terminal for results, or 0 if standard output is
// not a terminal.
func (o *Output) Width() int {
	width, _ := ui.TerminalSize(o.Stdout)
	return width
}
