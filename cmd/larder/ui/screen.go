// Package ui formats text for terminals: colors, tables and progress bars that fit the width, sizes and
// times, and a screen whose last lines change while messages scroll above them. It contains nothing
// about providers.
package ui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cliconfig"
)

// A Screen writes messages and results. While it is live it also shows changing lines below
// them.
//
// Between two frames, the cursor is at the beginning of the first of these lines. So the screen
// erases from the cursor to the end, which is correct even if the terminal has wrapped the
// lines after a change of its size. Counting lines back from the last one would not be.
type Screen struct {
	Err io.Writer // where the lines are shown

	Redact func(string) string // removes secrets from all output

	mu        sync.Mutex
	live      bool
	pending   []message     // written with the next frame
	wake      chan struct{} // has an item if output is pending
	truncated error         // the first of writing to another file than Err

	drawn bool // there are lines; used only by the drawing goroutine
}

// A message is text that is written with the next frame.
type message struct {
	to   io.Writer
	text string
}

// NewScreen returns a screen that is not live: it writes text at once.
func NewScreen(err io.Writer) *Screen {
	return &Screen{Err: err, Redact: func(text string) string { return text }, wake: make(chan struct{}, 1)}
}

// Write writes text that begins a line, and ends with a line break unless it is a question. While the screen is live,
// it never blocks: a terminal may be slow, or stopped.
func (s *Screen) Write(to io.Writer, text string) { s.WriteAfter(to, "", text) }

// WriteAfter is Write for a line that begins with a text of Larder's own, even if logs take this text as a command.
func (s *Screen) WriteAfter(to io.Writer, own, text string) {
	if text = own + s.outward(text); text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		s.put(to, text)
		return
	}
	s.pending = append(s.pending, message{to, text})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Page is Write for a text that a pager shows, if it has more lines than the terminal to which it is written. Without
// a pager, or if that can't be started, the text is written as it is.
func (s *Screen) Page(to io.Writer, text string) {
	_, height := TerminalSize(to)
	if pager := cliconfig.This().Pager(); height > 0 && strings.Count(text, "\n") >= height && pager != nil {
		cmd := exec.CommandContext(context.Background(), pager[0], pager[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(s.outward(text)), to, s.Err
		signal.Reset(os.Interrupt) // it is for the pager: help is the last that a process does
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
		if cmd.Start() == nil {
			_ = cmd.Wait()
			return
		}
	}
	s.Write(to, text)
}

func (s *Screen) put(to io.Writer, text string) {
	if _, err := fmt.Fprint(to, text); to != s.Err && s.truncated == nil {
		s.truncated = err
	}
}

// Truncated returns the first error of writing to another file than Err. It is called when the screen isn't live.
func (s *Screen) Truncated() error { return s.truncated }

// outward returns text as it may leave the process.
func (s *Screen) outward(text string) string { return outward(s.Redact(text)) }

// begin makes the screen live.
func (s *Screen) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = true
}

// draw writes pending text, and lines below it.
func (s *Screen) draw(lines func(width, height int) []string) {
	s.mu.Lock()
	pending := s.pending
	s.pending = nil
	s.mu.Unlock()
	s.frame(pending, lines(TerminalSize(s.Err)))
}

// end writes pending text and removes the lines.
func (s *Screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frame(s.pending, nil)
	s.pending, s.live = nil, false
}

const (
	// eraseBelow erases from the beginning of the line to the end. It erases the first column
	// last, because tmux keeps a copy of the screen if the erased part begins in its top left
	// corner.
	eraseBelow = "\r\x1b[C\x1b[J\r\x1b[K"

	noWrap = "\x1b[?7l" // lines that are too wide are cut, for example just after a change of the size
	wrap   = "\x1b[?7h"
	up     = "\x1b[%dA"
)

// frame writes messages, and replaces the lines of the last frame. Output for the terminal is
// written in one call, except messages for another file.
func (s *Screen) frame(messages []message, lines []string) {
	var b bytes.Buffer
	if s.drawn {
		b.WriteString(eraseBelow)
	}
	for _, m := range messages {
		if m.to != s.Err {
			fmt.Fprint(s.Err, b.String())
			b.Reset()
			s.put(m.to, m.text)
			continue
		}
		b.WriteString(m.text)
	}
	s.drawn = len(lines) > 0
	if s.drawn {
		b.WriteString(noWrap + s.outward(strings.Join(lines, "\n")) + wrap)
	}
	if n := len(lines); n > 1 {
		fmt.Fprintf(&b, up, n-1)
	}
	if s.drawn {
		b.WriteString("\r")
	}
	if b.Len() > 0 {
		fmt.Fprint(s.Err, b.String())
	}
}
