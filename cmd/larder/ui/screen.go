package ui

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"

	"github.com/larder-cli/larder/sources"
)

// A screen writes messages and results. While it is live it also shows changing lines below
// them.
//
// Between two frames, the cursor is at the beginning of the first of these lines. So the screen
// erases from the cursor to the end, which is correct even if the terminal has wrapped the
// lines after a change of its size. Counting lines back from the last one would not be.
type screen struct {
	err io.Writer // where the lines are shown

	secrets *sources.Secrets // are in no output

	mu      sync.Mutex
	live    bool
	pending []message     // written with the next frame
	wake    chan struct{} // has an item if output is pending

	drawn bool // there are lines; used only by the drawing goroutine
}

// A message is text that is written with the next frame.
type message struct {
	to   io.Writer
	text string
}

// newScreen returns a screen that is not live: it writes text at once.
func newScreen(err io.Writer) *screen {
	return &screen{err: err, secrets: new(sources.Secrets), wake: make(chan struct{}, 1)}
}

// write writes text that ends with a line break. While the screen is live, write never blocks: a
// terminal may be slow, or stopped.
func (s *screen) write(to io.Writer, text string) {
	text = s.secrets.Redact(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		fmt.Fprint(to, text)
		return
	}
	s.pending = append(s.pending, message{to, text})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin makes the screen live.
func (s *screen) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = true
}

// draw writes pending text, and lines below it.
func (s *screen) draw(lines func(width, height int) []string) {
	s.mu.Lock()
	pending := s.pending
	s.pending = nil
	s.mu.Unlock()
	s.frame(pending, lines(terminalSize(s.err)))
}

// end writes pending text and removes the lines.
func (s *screen) end() {
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
func (s *screen) frame(messages []message, lines []string) {
	var b bytes.Buffer
	if s.drawn {
		b.WriteString(eraseBelow)
	}
	for _, m := range messages {
		if m.to != s.err {
			fmt.Fprint(s.err, b.String())
			b.Reset()
			fmt.Fprint(m.to, m.text)
			continue
		}
		b.WriteString(m.text)
	}
	s.drawn = len(lines) > 0
	if s.drawn {
		b.WriteString(noWrap + s.secrets.Redact(strings.Join(lines, "\n")) + wrap)
	}
	if n := len(lines); n > 1 {
		fmt.Fprintf(&b, up, n-1)
	}
	if s.drawn {
		b.WriteString("\r")
	}
	if b.Len() > 0 {
		fmt.Fprint(s.err, b.String())
	}
}

// visible returns text without terminal control characters: names of files and text from
// servers may contain them. It indents lines after the first, so that they cannot imitate
// messages of larder.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString("\n  ")
		case r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// visibleJSON escapes the C1 controls and the controls of bidirectional text in JSON, which the
// encoder does not escape.
func visibleJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
