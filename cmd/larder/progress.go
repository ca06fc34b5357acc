package main

import (
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const redrawEvery = 150 * time.Millisecond

// tellProgressEvery is how often progress is told where there is no terminal.
// Tests are in more of a hurry.
var tellProgressEvery = 10 * time.Second

// A progress shows what is under way while something is: as bars on a terminal,
// else as a line now and then.
type progress struct {
	board  board
	screen *screen
	dumb   bool                                                      // the terminal can do no more than print
	ticks  func(time.Duration) (ticks <-chan time.Time, stop func()) // until stop is called

	begin sync.Once
	stop  chan struct{}
	done  chan struct{} // closed when nothing more is shown; nil if nothing ever was
}

func newProgress(s *screen) *progress {
	return &progress{board: board{now: time.Now}, screen: s, ticks: ticker, stop: make(chan struct{})}
}

func ticker(every time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// followed is the board, which is shown from now on if the user wants that.
func (o *output) followed() *board {
	p := o.progress
	if !o.json && o.level != quiet {
		p.begin.Do(func() {
			p.done = make(chan struct{})
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

func (p *progress) onTerminal() bool {
	width, _ := terminalSize(p.screen.err)
	return width > 0 && !p.dumb && commandsTerminal(p.screen.err.(*os.File))
}

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
		p.screen.draw(p.board.lines)
	}
}

func (p *progress) tellNowAndThen(o *output) {
	defer close(p.done)
	ticks, stop := p.ticks(tellProgressEvery)
	defer stop()
	for {
		select {
		case <-ticks:
			if line := p.board.summary(); line != "" {
				o.say(normal, "%s", line)
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

// terminalSize tells how many columns and lines the terminal has that w is, and 0
// if it is none.
func terminalSize(w any) (width, height int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, 0
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24 // which nobody has less of
	}
	return width, height
}
