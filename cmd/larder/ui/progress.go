package ui

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/larder-cli/larder/sources"
)

// redrawEvery is often enough to look smooth, and seldom enough to cost nothing.
const redrawEvery = 150 * time.Millisecond

// ProgressEvery is how often progress is told where there is no terminal.
// Tests are in more of a hurry.
var ProgressEvery = 10 * time.Second

// A progress shows what is under way while something is: as bars on a terminal,
// else as a line now and then.
type progress struct {
	board   board
	screen  *screen
	dumb    bool                                                      // the terminal can do no more than print
	colours func() bool                                               // are shown
	ticks   func(time.Duration) (ticks <-chan time.Time, stop func()) // until stop is called

	begin sync.Once
	stop  chan struct{}
	done  chan struct{} // closed when nothing more is shown; nil if nothing ever was
}

// newProgress shows nothing until something is under way.
func newProgress(s *screen) *progress {
	return &progress{board: board{now: time.Now}, colours: func() bool { return false }, screen: s, ticks: ticker, stop: make(chan struct{})}
}

// ticker is the clock of a progress, unless a test has its own.
func ticker(every time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// followed is the board, which is shown from now on if the user wants that.
func (o *Output) followed() *board {
	p := o.progress
	if !o.JSON && o.Level != Quiet {
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

// NoBars shows no bars, also where there is a terminal.
func (o *Output) NoBars() { o.progress.dumb = true }

// A Report is told how many bytes of how many were dealt with.
type Report = func(done, of int64)

// Work runs a function that works on a whole store, and shows how
// far it reports to be.
func Work[T any](o *Output, work func(Report) (T, error)) (T, error) {
	b := o.followed()
	b.work(0, 0) // the first package may take a while
	defer b.end(itemKey{})
	return work(b.work)
}

// Forget removes a package from the progress display.
func (o *Output) Forget(id sources.PackageID) { o.followed().end(itemKey{id: id}) }

// onTerminal reports whether bars can be drawn and redrawn.
func (p *progress) onTerminal() bool {
	return IsTerminal(p.screen.err) && !p.dumb && commandsTerminal(p.screen.err.(*os.File))
}

// showBars draws the bars until the progress ends. It alone draws, so that no one who
// reports progress waits for the terminal.
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

// tellNowAndThen writes a line now and then until the progress ends, for logs.
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

// end shows nothing more. All that was to be written has been when it returns.
func (p *progress) end() {
	p.begin.Do(func() {}) // or it is too late to
	if p.done != nil {
		close(p.stop)
		<-p.done
	}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	width, _ := terminalSize(w)
	return width > 0
}

// Width is how many columns the terminal has that results are written to, 0 if they
// go elsewhere.
func (o *Output) Width() int {
	width, _ := terminalSize(o.Stdout)
	return width
}

// file is the file that is written to, also if errors are noted on the way.
func file(w any) (*os.File, bool) {
	if through, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = through.Unwrap()
	}
	f, ok := w.(*os.File)
	return f, ok
}

// terminalSize tells how many columns and lines the terminal has that w is, and 0
// if it is none.
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
