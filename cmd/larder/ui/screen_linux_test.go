package ui

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui/uitest"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var sizes = [][2]int{{120, 24}, {80, 24}, {60, 5}, {20, 10}, {10, 6}, {10, 2}, {3, 1}}

// Messages stay in order and complete above the changing lines. In the end only messages remain.
func TestMessagesScrollAboveTheBars(t *testing.T) {
	for _, size := range sizes {
		w := uitest.New(t, size[0], size[1])
		w.Read()
		c := newClock()
		b := busy(t, c)
		s := newScreen(w.TTY)
		s.begin()
		var want strings.Builder
		for i := range 30 {
			message := fmt.Sprintf("larder: message %d, which is about as long as one of ours is", i)
			if i%3 == 0 {
				s.draw(b.lines)
			}
			s.write(w.TTY, message+"\n")
			if i%4 == 0 {
				s.draw(b.lines)
			}
			fmt.Fprintln(&want, message)
		}
		s.draw(b.lines)
		w.Settle()
		lines := b.lines(size[0], size[1])
		if got, want := w.Text(), strings.TrimRight(want.String()+strings.Join(lines, "\n"), "\n"); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", size, got, want)
		}
		if len(w.Seen()) > size[1] || w.Column != 0 || w.NoWrap {
			t.Errorf("%v: cursor in column %d, wrapping %t, of %q", size, w.Column, !w.NoWrap, w.Seen())
		}
		s.end()
		w.Settle()
		if got, want := w.Text()+"\n", want.String(); got != want || w.Column != 0 {
			t.Errorf("%v: in the end got\n%s\nwant\n%s", size, got, want)
		}
	}
}

// After a change of the size, nothing remains of the earlier lines, on terminals that wrap lines
// again and on those that cut them.
func TestResize(t *testing.T) {
	for _, reflow := range []bool{false, true} {
		for _, from := range sizes {
			for _, to := range sizes {
				w := uitest.New(t, from[0], from[1])
				w.Read()
				b := busy(t, newClock())
				s := newScreen(w.TTY)
				s.begin()
				s.write(w.TTY, "abc\n")
				s.draw(b.lines)
				s.draw(b.lines)
				w.Settle()
				w.Resize(to[0], to[1], reflow)
				s.draw(b.lines)
				s.draw(b.lines)
				w.Settle()
				if got, want := w.Text(), strings.TrimRight("abc\n"+strings.Join(b.lines(to[0], to[1]), "\n"), "\n"); got != want {
					t.Errorf("reflow %t, %v to %v: got\n%s\nwant\n%s", reflow, from, to, got, want)
				}
				s.write(w.TTY, "xyz\n")
				s.end()
				w.Settle()
				got := w.Text()
				sourcetest.Expect(t, got == "abc\nxyz", "reflow %t, %v to %v: in the end got\n%s", reflow, from, to, got)
			}
		}
	}
}

// Results that are written elsewhere than the changing lines are complete.
func TestResultsGoWhereTheyBelong(t *testing.T) {
	w := uitest.New(t, 80, 24)
	w.Read()
	var stdout bytes.Buffer
	s := newScreen(w.TTY)
	s.begin()
	b := busy(t, newClock())
	s.draw(b.lines)
	s.write(&stdout, "result\n")
	s.write(w.TTY, "message\n")
	s.end()
	w.Settle()
	got := w.Text()
	sourcetest.Expect(t, got == "message" && stdout.String() == "result\n", "got %q and %q", got, stdout.String())
}

// Work does not wait for a stopped terminal, and no message is lost.
func TestStoppedTerminal(t *testing.T) {
	w := uitest.New(t, 80, 24)
	out := New(w.TTY, w.TTY)
	ticks := make(chan time.Time)
	out.progress.ticks = func(time.Duration) (<-chan time.Time, func()) { return ticks, func() {} }
	long := strings.Repeat("x", 200)
	const messages = 1000 // far more than it takes
	told := make(chan struct{})
	go func() {
		defer close(told)
		for i := range messages {
			out.Event(acquire.Event{Step: acquire.Warned, Package: pkg(t, "acme/one"), Text: fmt.Sprint(i, long)})
		}
	}()
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		t.Fatal("messages wait for the terminal")
	}
	w.Read()
	ended := make(chan struct{})
	go func() {
		out.progress.end()
		fmt.Fprint(w.TTY, "\x00")
		close(ended)
	}()
	w.Until("\x00")
	<-ended
	var want strings.Builder
	for i := range messages {
		fmt.Fprintf(&want, "larder: warning: acme/one:\n  %d%s\n", i, long)
	}
	got := w.Text() + "\n"
	sourcetest.Equal(t, got, want.String(), len(got), "bytes", want.Len())
}
