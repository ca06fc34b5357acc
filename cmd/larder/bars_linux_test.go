package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui/uitest"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// slow creates a root module with a package whose download stops half-way.
func slow(t *testing.T) (dir string) {
	g := requiringWidget(t, sourcetest.Release{Size: 200_000})
	setenvs(t, append(g.world.Env(), "HOME="+g.base, "TERM=xterm")...)
	g.world.Registry.Fault(sourcetest.Fault{Path: "*.zip", Stall: 100_000})
	return g.base
}

// The bars are removed before the message about the interruption.
func TestInterruptedWithBars(t *testing.T) {
	dir := slow(t)
	w := uitest.New(t, 120, 24)
	w.Read()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	status := make(chan int, 1)
	go func() {
		status <- runLine(ctx, []string{"larder", "--chdir", dir, "--no-cache", "install"}, w.TTY, w.TTY)
		fmt.Fprint(w.TTY, "\x00")
	}()
	w.Until("/200 kB")
	const line = "example.test/acme/widget 1.0.0  ━━━━━━──────────────   32%  66/200 kB"
	seen := strings.Join(w.Seen(), "\n")
	sourcetest.Expect(t, strings.Contains(seen, line), "got\n%s", seen)
	interrupt()
	w.Until("\x00")
	const want = "larder: error: interrupted; providers already installed are complete; the lock file is intact"
	got := w.Text()
	sourcetest.Expect(t, got == want && w.Column == 0 && <-status == exitInterrupted, "got\n%s\nwant\n%s", got, want)
}

// Bars can be disabled, and are absent where the terminal cannot show them.
func TestNoBars(t *testing.T) {
	for name, args := range map[string][]string{
		"--quiet":   {"install", "--quiet", "--color", "never"},
		"--json":    {"install", "--json"},
		"TERM=dumb": {"install"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := slow(t)
			if name == "TERM=dumb" {
				t.Setenv("TERM", "dumb")
			}
			w := uitest.New(t, 100, 24)
			w.Read()
			ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer stop()
			runLine(ctx, append([]string{"larder", "--chdir", dir, "--no-cache"}, args...), w.TTY, w.TTY)
			w.Settle()
			if strings.Contains(w.Raw.String(), "\x1b") || strings.Contains(w.Raw.String(), "%") {
				t.Errorf("got %q", w.Raw.String())
			}
		})
	}
}
