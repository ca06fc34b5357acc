package ui

import (
	"os"
	"sync"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"golang.org/x/term"
)

// redrawEvery is short enough to look smooth, and long enough to need little CPU time.
const redrawEvery = 150 * time.Millisecond

// ProgressEvery is the interval of progress messages without a terminal. Tests reduce it.
var ProgressEvery = 10 * time.Second

// A Progress shows work in progress: as bars on a terminal, otherwise as a line at intervals.
type Progress struct {
	Ticks func(time.Duration) <-chan time.Time // tests replace it

	screen *Screen

	begin sync.Once
	ended sync.Once
	stop  chan struct{}
	done  chan struct{} // closed when the display ends; nil if it never began
}

// A Display is what a [Progress] shows. Its methods are called by another goroutine.
type Display interface {
	Lines(width, height int, colors bool) []string // at most height lines, none wider than width
	Summary() string                               // one line; empty if nothing is in progress
}

// NewProgress returns a progress that shows nothing until [Progress.Begin].
func NewProgress(s *Screen) *Progress {
	return &Progress{screen: s, Ticks: time.Tick, stop: make(chan struct{})}
}

// Begin begins the display, unless it has begun or ended before. Without a terminal that can show bars
// it gives tell a line now and then.
func (p *Progress) Begin(d Display, color ColorMode, tell func(line string)) {
	p.begin.Do(func() {
		p.done = make(chan struct{})
		if !p.OnTerminal() {
			go p.show(ProgressEvery, func() {
				if line := d.Summary(); line != "" {
					tell(line)
				}
			})
			return
		}
		p.screen.begin()
		colors := color.Shows(p.screen.Err)
		go p.show(redrawEvery, func() {
			p.screen.draw(func(width, height int) []string { return d.Lines(width, height, colors) })
		})
	})
}

// OnTerminal reports whether the output is a terminal that can show bars.
func (p *Progress) OnTerminal() bool {
	return IsTerminal(p.screen.Err) && !cliconfig.This().DumbTerminal() && cliconfig.Interprets(p.screen.Err.(*os.File))
}

// show shows the progress at intervals until it ends. Only this goroutine draws, so that code that reports progress
// never waits for the terminal.
func (p *Progress) show(every time.Duration, once func()) {
	defer close(p.done)
	ticks := p.Ticks(every)
	for {
		select {
		case <-ticks:
		case <-p.screen.wake: // only while the screen is live
		case <-p.stop:
			p.screen.end()
			return
		}
		once()
	}
}

// End stops the display. All pending output has been written when it returns.
func (p *Progress) End() {
	p.begin.Do(func() {}) // prevents a later start
	if p.done != nil {
		p.ended.Do(func() { close(p.stop) })
		<-p.done
	}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	width, _ := TerminalSize(w)
	return width > 0
}

// TerminalSize returns the columns and lines of the terminal w, or 0 if it is not a terminal.
func TerminalSize(w any) (width, height int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, 0
	}
	width, height, _ = term.GetSize(int(f.Fd())) // a terminal may know only one of them
	if width <= 0 {
		width = 80 // the smallest size in common use
	}
	if height <= 0 {
		height = 24
	}
	return width, height
}
