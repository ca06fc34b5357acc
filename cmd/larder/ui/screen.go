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
)

// A screen is what messages and results are written to. While it is live it also
// shows lines that change, below all that was written.
//
// Between two frames the cursor stands at the beginning of the first of those
// lines, not below the last. Whatever a terminal makes of them when its size
// changes, to erase from there to the end is right, and counting back is not.
type screen struct {
	err io.Writer // where the lines are shown

	mu      sync.Mutex
	live    bool
	pending []message     // to be written with the next frame
	wake    chan struct{} // holds an item if there is something pending

	drawn bool // there are lines; known to the one who draws alone
}

// A message is text that waits for the next frame.
type message struct {
	to   io.Writer
	text string
}

// newScreen is not live: what is written appears at once.
func newScreen(err io.Writer) *screen {
	return &screen{err: err, wake: make(chan struct{}, 1)}
}

// write writes text, which ends with a line break. While the screen is live
// that never waits: a terminal may be slow, or stopped.
func (s *screen) write(to io.Writer, text string) {
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

// draw writes what is pending, and lines below it.
func (s *screen) draw(lines func(width, height int) []string) {
	s.mu.Lock()
	pending := s.pending
	s.pending = nil
	s.mu.Unlock()
	s.frame(pending, lines(terminalSize(s.err)))
}

// end writes what is pending and leaves nothing else behind.
func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frame(s.pending, nil)
	s.pending, s.live = nil, false
}

const (
	// eraseBelow erases from the beginning of the line to the end, the first
	// column last: of what is erased from the very first place on, tmux keeps a
	// copy above each time.
	eraseBelow = "\r\x1b[C\x1b[J\r\x1b[K"

	noWrap = "\x1b[?7l" // what is too wide is cut, should the size have changed just now
	wrap   = "\x1b[?7h"
	up     = "\x1b[%dA"
)

// frame writes messages and then lines instead of those before. What goes to the
// terminal goes there at once, as far as the messages are for it.
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
		b.WriteString(noWrap + strings.Join(lines, "\n") + wrap)
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

// visible is text that does nothing to a terminal but appear on it: names of
// files and words of servers may be in it. What follows a line break is
// indented, so that it does not pass for a line of ours.
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

// visibleJSON is the same JSON in such letters as do nothing to a terminal: the
// encoder leaves the controls of C1 and those of bidirectional text as they are.
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
