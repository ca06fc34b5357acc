package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui/uitest"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Work does not wait for a stopped terminal, and no message is lost.
func TestStoppedTerminal(t *testing.T) {
	w := uitest.New(t, 80, 24)
	out := New(w.TTY, w.TTY)
	ticks := make(chan time.Time)
	out.progress.Ticks = func(time.Duration) <-chan time.Time { return ticks }
	long := strings.Repeat("x", 200)
	const messages = 1000 // far more than it takes
	told := make(chan struct{})
	go func() {
		defer close(told)
		for i := range messages {
			out.Event(acquire.Event{Step: acquire.Warned, Package: sources.PackageID{Provider: sourcetest.Address(t, "acme/one")}, Text: fmt.Sprint(i, long)})
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
		out.progress.End()
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
