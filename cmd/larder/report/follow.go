package report

import (
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// followed returns the board, and starts the display if the user has not disabled it.
func (o *Output) followed() *board {
	if !o.JSON && o.Level >= Normal {
		o.progress.Begin(o.board, o.Color, func(line string) { o.Say("%s", line) })
	}
	return o.board
}

// NoBars disables bars on terminals too.
func (o *Output) NoBars() { o.progress.Dumb = true }

// A Report reports how many bytes are done, and the total.
type Report = func(done, of int64)

// Work runs a function that works on a whole store, and shows the progress that it reports.
func Work[T any](o *Output, work func(Report) (T, error)) (T, error) {
	b := o.followed()
	b.work(0, 0) // the first package may take long
	defer b.end(sources.PackageID{})
	return work(b.work)
}

// Forget removes a package from the progress display.
func (o *Output) Forget(id sources.PackageID) { o.followed().end(id) }

// Width returns the number of columns of the terminal for results, or 0 if standard output is
// not a terminal.
func (o *Output) Width() int {
	width, _ := ui.TerminalSize(o.Stdout)
	return width
}
