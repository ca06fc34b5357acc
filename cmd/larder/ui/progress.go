package ui

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/larder-cli/larder/sources"
)

// redrawEvery is short enough to look smooth, and long enough to need little CPU time.
const redrawEvery = 150 * time.Millisecond

// ProgressEvery is the interval of progress messages without a terminal. Tests reduce it.
var ProgressEvery = 10 * time.Second

// A progress shows work in progress: as bars on a terminal, otherwise as a line at intervals.
type progress struct {
	board   board
	screen  *screen
	dumb    bool                                                      // the terminal only supports plain text
	colours func() bool                                               // reports whether to show colours
	ticks   func(time.Duration) (ticks <-chan time.Time, stop func()) // until stop is called

	begin sync.Once
	ended sync.Once
	stop  chan struct{}
	done  chan struct{} // closed when the display ends; nil if it never began
}

// newProgress returns a display that starts with the first work.
func newProgress(s *screen) *progress {
	return &progress{board: board{now: time.Now}, colours: func() bool { return false }, screen: s, ticks: ticker, stop: make(chan struct{})}
}

// ticker is the clock of a progress. Tests replace it.
func ticker(every time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// followed returns the board, and starts the display if the user has not disabled it.
func (o *Output) followed() *board {
	p := o.progress
	if !o.JSON && o.Level >= Normal {
		p.begin.Do(func() {
			p.done = make(chan struct{})
			p.board.verbose = o.Level == Verbose
			p.colours = func() bool { return o.colours(o.Stderr) }
			if p.onTerminal() {
				p.screen.begin()
				go p.showBars()
			} else {
				go p.tellNowAndThen(o)
			}
		})
	}
	return &p.board
}

// NoBars disables bars on terminals too.
func (o *Output) NoBars() { o.progress.dumb = true }

// A Report reports how many bytes are done, and the total.
type Report = func(done, of int64)

// Work runs a function that works on a whole store, and shows the progress that it reports.
func Work[T any](o *Output, work func(Report) (T, error)) (T, error) {
	b := o.followed()
	b.work(0, 0) // the first package may take long
	defer b.end(itemKey{})
	return work(b.work)
}

// Forget removes a package from the progress display.
func (o *Output) Forget(id sources.PackageID) { o.followed().end(itemKey{id: id}) }

// onTerminal reports whether the output is a terminal that can show bars.
func (p *progress) onTerminal() bool {
	return IsTerminal(p.screen.err) && !p.dumb && commandsTerminal(p.screen.err.(*os.File))
}

// showBars draws the bars until the progress ends. Only this goroutine draws, so that code that
// reports progress never waits for the terminal.
func (p *progress) showBars() {
	defer close(p.done)
	ticks, stop := p.ticks(redrawEvery)
	defer stop()
	for {
		select {
		case <-ticks:
		case <-p.screen.wake:
		case <-p.stop:
			p.screen.end()
			return
		}
		p.screen.draw(func(width, height int) []string { return p.board.drawn(width, height, p.colours()) })
	}
}

// tellNowAndThen writes a line at intervals until the progress ends, for logs.
func (p *progress) tellNowAndThen(o *Output) {
	defer close(p.done)
	ticks, stop := p.ticks(ProgressEvery)
	defer stop()
	for {
		select {
		case <-ticks:
			if line := p.board.summary(); line != "" {
				o.Say("%s", line)
			}
		case <-p.stop:
			return
		}
	}
}

// end stops the display. All pending output has been written when it returns.
func (p *progress) end() {
	p.begin.Do(func() {}) // prevents a later start
	if p.done != nil {
		p.ended.Do(func() { close(p.stop) })
		<-p.done
	}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	width, _ := terminalSize(w)
	return width > 0
}

// Width returns the number of columns of the terminal for results, or 0 if standard output is
// not a terminal.
func (o *Output) Width() int {
	width, _ := terminalSize(o.Stdout)
	return width
}

// file returns the underlying file, also of a writer that records errors.
func file(w any) (*os.File, bool) {
	if through, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = through.Unwrap()
	}
	f, ok := w.(*os.File)
	return f, ok
}

// terminalSize returns the columns and lines of the terminal w, or 0 if it is not a terminal.
func terminalSize(w any) (width, height int) {
	f, ok := file(w)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, 0
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24 // the smallest size in common use
	}
	return width, height
}
