package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var sizes = [][2]int{{120, 24}, {80, 24}, {60, 5}, {20, 10}, {10, 6}, {10, 2}, {3, 1}}

// Messages stay, in order and whole, whatever is shown below them; in the end
// they are all that is left.
func TestMessagesScrollAboveTheBars(t *testing.T) {
	for _, size := range sizes {
		w := newTerminal(t, size[0], size[1])
		w.read()
		c := newClock()
		b := busy(t, c)
		s := newScreen(w.tty)
		s.begin()
		var want strings.Builder
		for i := range 30 {
			message := fmt.Sprintf("larder: message %d, which is about as long as one of ours is", i)
			if i%3 == 0 {
				s.draw(b.lines)
			}
			s.write(w.tty, message+"\n")
			if i%4 == 0 {
				s.draw(b.lines)
			}
			fmt.Fprintln(&want, message)
		}
		s.draw(b.lines)
		w.settle()
		lines := b.lines(size[0], size[1])
		if got, want := w.text(), strings.TrimRight(want.String()+strings.Join(lines, "\n"), "\n"); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", size, got, want)
		}
		if len(w.seen()) > size[1] || w.column != 0 || w.noWrap {
			t.Errorf("%v: cursor in column %d, wrapping %t, of %q", size, w.column, !w.noWrap, w.seen())
		}
		s.end()
		w.settle()
		if got, want := w.text()+"\n", want.String(); got != want || w.column != 0 {
			t.Errorf("%v: in the end got\n%s\nwant\n%s", size, got, want)
		}
	}
}

// When the size changes there is nothing left of what was there before, neither
// where terminals break lines anew nor where they cut them.
func TestResize(t *testing.T) {
	for _, reflow := range []bool{false, true} {
		for _, from := range sizes {
			for _, to := range sizes {
				w := newTerminal(t, from[0], from[1])
				w.read()
				b := busy(t, newClock())
				s := newScreen(w.tty)
				s.begin()
				s.write(w.tty, "abc\n")
				s.draw(b.lines)
				s.draw(b.lines)
				w.settle()
				w.resize(to[0], to[1], reflow)
				s.draw(b.lines)
				s.draw(b.lines)
				w.settle()
				if got, want := w.text(), strings.TrimRight("abc\n"+strings.Join(b.lines(to[0], to[1]), "\n"), "\n"); got != want {
					t.Errorf("reflow %t, %v to %v: got\n%s\nwant\n%s", reflow, from, to, got, want)
				}
				s.write(w.tty, "xyz\n")
				s.end()
				w.settle()
				if got := w.text(); got != "abc\nxyz" {
					t.Errorf("reflow %t, %v to %v: in the end got\n%s", reflow, from, to, got)
				}
			}
		}
	}
}

// Where results go to another place than the lines, they do so in full.
func TestResultsGoWhereTheyBelong(t *testing.T) {
	w := newTerminal(t, 80, 24)
	w.read()
	var stdout bytes.Buffer
	s := newScreen(w.tty)
	s.begin()
	b := busy(t, newClock())
	s.draw(b.lines)
	s.write(&stdout, "result\n")
	s.write(w.tty, "message\n")
	s.end()
	w.settle()
	if got := w.text(); got != "message" || stdout.String() != "result\n" {
		t.Errorf("got %q and %q", got, stdout.String())
	}
}

// Nobody waits for a terminal that has stopped, and nothing is lost.
func TestStoppedTerminal(t *testing.T) {
	w := newTerminal(t, 80, 24)
	out := newOutput(w.tty, w.tty)
	ticks := make(chan time.Time)
	out.progress.ticks = func(time.Duration) (<-chan time.Time, func()) { return ticks, func() {} }
	long := strings.Repeat("x", 200)
	const messages = 1000 // far more than it takes
	told := make(chan struct{})
	go func() {
		defer close(told)
		for i := range messages {
			out.event(installer.Event{Step: installer.Warned, Package: pkg(t, "acme/one"), Text: fmt.Sprint(i, long)})
		}
	}()
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		t.Fatal("messages wait for the terminal")
	}
	w.read()
	ended := make(chan struct{})
	go func() {
		out.progress.end()
		fmt.Fprint(w.tty, "\x00")
		close(ended)
	}()
	w.until("\x00")
	<-ended
	var want strings.Builder
	for i := range messages {
		fmt.Fprintf(&want, "larder: warning: registry.terraform.io/acme/one: %d%s\n", i, long)
	}
	if got := w.text() + "\n"; got != want.String() {
		t.Errorf("got %d bytes, want %d", len(got), want.Len())
	}
}

// slow is a root module with a package that stops half-way.
func slow(t *testing.T) (dir string) {
	world := sourcetest.New(t)
	for _, assignment := range world.Env() {
		name, value, _ := strings.Cut(assignment, "=")
		t.Setenv(name, value)
	}
	dir = t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("TERM", "xterm")
	world.Add("example.test/acme/widget", "1.2.0", sourcetest.Release{Size: 200_000})
	world.Registry.Fault(sourcetest.Fault{Path: "*.zip", Stall: 100_000})
	const config = `terraform {
  required_providers {
    widget = {
      source = "example.test/acme/widget"
    }
  }
}
`
	must(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(config), 0o644))
	return dir
}

// Bars are gone when it is told that the run was interrupted.
func TestInterruptedWithBars(t *testing.T) {
	dir := slow(t)
	w := newTerminal(t, 120, 24)
	w.read()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"larder", "--chdir", dir, "--no-cache", "install"}, w.tty, w.tty)
		fmt.Fprint(w.tty, "\x00")
	}()
	w.until("kB of 200.")
	w.until("from registry example.test")
	if line := " 32% example.test/acme/widget 1.2.0 [====>-----------] 65.5 kB of 200."; !strings.Contains(w.raw.String(), line) {
		t.Errorf("got\n%s", strings.Join(w.seen(), "\n"))
	}
	interrupt()
	w.until("\x00")
	want := "larder: example.test/acme/widget 1.2.0: fetching from registry example.test\n" +
		"larder: error: interrupted; what was installed is whole"
	if got := w.text(); got != want || w.column != 0 || <-status != exitInterrupted {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Some want no bars, or cannot have them.
func TestNoBars(t *testing.T) {
	for name, args := range map[string][]string{
		"--quiet":   {"install", "--quiet"},
		"--json":    {"install", "--json"},
		"TERM=dumb": {"install"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := slow(t)
			if name == "TERM=dumb" {
				t.Setenv("TERM", "dumb")
			}
			w := newTerminal(t, 100, 24)
			w.read()
			ctx, stop := context.WithTimeout(t.Context(), 2*soon)
			defer stop()
			run(ctx, append([]string{"larder", "--chdir", dir, "--no-cache"}, args...), w.tty, w.tty)
			w.settle()
			if strings.Contains(w.raw.String(), "\x1b") || strings.Contains(w.raw.String(), "%") {
				t.Errorf("got %q", w.raw.String())
			}
		})
	}
}
