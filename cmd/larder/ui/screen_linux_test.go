package ui

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/cmd/larder/ui/uitest"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// display returns bars of all kinds for a terminal of a size.
func display(width, height int) []string {
	rows := []Bar{
		{Name: "acme/one 1.2.0", Text: Arrived(61e6, 121e6), Done: 61e6, Size: 121e6},
		{Name: "acme/another-one 10.0.0", Text: "waiting for process 7 on there"},
		{Name: "1 of 3 packages", Text: Arrived(61e6, 0) + ", 30 MB/s, 1 failed"},
	}
	return Bars(rows[:min(len(rows), max(0, height-1))], width, false)
}

// A terminal that reports no number of lines still has its columns, and the other way around.
func TestTerminalOfPartlyUnknownSize(t *testing.T) {
	w := uitest.New(t, 120, 50)
	for _, c := range []struct{ set, want [2]int }{
		{[2]int{60, 0}, [2]int{60, 24}}, {[2]int{0, 10}, [2]int{80, 10}}, {[2]int{0, 0}, [2]int{80, 24}}, {[2]int{40, 5}, [2]int{40, 5}},
	} {
		size := unix.Winsize{Col: uint16(c.set[0]), Row: uint16(c.set[1])}
		sourcetest.Equal(t, unix.IoctlSetWinsize(int(w.TTY.Fd()), unix.TIOCSWINSZ, &size), nil)
		width, height := TerminalSize(w.TTY)
		sourcetest.Equal(t, [2]int{width, height}, c.want, c.set)
	}
}

var sizes = [][2]int{{120, 24}, {80, 24}, {60, 5}, {20, 10}, {10, 6}, {10, 2}, {3, 1}}

// Messages stay in order and complete above the changing lines. In the end only messages remain.
func TestMessagesScrollAboveTheBars(t *testing.T) {
	for _, size := range sizes {
		w := uitest.New(t, size[0], size[1])
		w.Read()
		s := NewScreen(w.TTY)
		s.begin()
		var want strings.Builder
		for i := range 30 {
			message := fmt.Sprintf("larder: message %d, which is about as long as one of ours is", i)
			if i%3 == 0 {
				s.draw(display)
			}
			s.Write(w.TTY, message+"\n")
			if i%4 == 0 {
				s.draw(display)
			}
			fmt.Fprintln(&want, message)
		}
		s.draw(display)
		w.Settle()
		lines := strings.Join(display(size[0], size[1]), "\n")
		sourcetest.Equal(t, w.Text(), strings.TrimRight(want.String()+lines, "\n"), size)
		sourcetest.Expect(t, len(w.Seen()) <= size[1] && w.Column == 0 && !w.NoWrap,
			"%v: cursor in column %d of %q", size, w.Column, w.Seen())
		s.end()
		w.Settle()
		sourcetest.Equal(t, w.Text()+"\n", want.String(), size, "in the end")
		sourcetest.Equal(t, w.Column, 0, size)
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
				s := NewScreen(w.TTY)
				s.begin()
				s.Write(w.TTY, "abc\n")
				s.draw(display)
				s.draw(display)
				w.Settle()
				w.Resize(to[0], to[1], reflow)
				s.draw(display)
				s.draw(display)
				w.Settle()
				lines := strings.Join(display(to[0], to[1]), "\n")
				sourcetest.Equal(t, w.Text(), strings.TrimRight("abc\n"+lines, "\n"), "reflow", reflow, from, "to", to)
				s.Write(w.TTY, "xyz\n")
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
	s := NewScreen(w.TTY)
	s.begin()
	s.draw(display)
	s.Write(&stdout, "result\n")
	s.Write(w.TTY, "message\n")
	s.end()
	w.Settle()
	got := w.Text()
	sourcetest.Expect(t, got == "message" && stdout.String() == "result\n", "got %q and %q", got, stdout.String())
}
