package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Without a terminal there is a line at intervals during work.
func TestProgressIsToldNowAndThen(t *testing.T) {
	var stdout, stderr bytes.Buffer
	out := New(&stdout, &stderr)
	now := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	ticks := make(chan time.Time)
	out.board.Now = func() time.Time { return now }
	out.progress.Ticks = func(every time.Duration) <-chan time.Time {
		sourcetest.Equal(t, every, ui.ProgressEvery, "every")
		return ticks
	}
	one := sourcetest.PackageID(t, "acme/one", "1.2.0", sources.CurrentPlatform().String())
	out.Event(acquire.Event{Step: acquire.Chosen, Package: one})
	out.Event(acquire.Event{Step: acquire.Fetching, Package: one, Source: "registry there"})
	out.Event(acquire.Event{Step: acquire.Arriving, Package: one, Done: 0, Size: 80e6})
	now = now.Add(4 * time.Second)
	out.Event(acquire.Event{Step: acquire.Arriving, Package: one, Done: 20e6, Size: 80e6})
	ticks <- now
	ticks <- now // the first line is written by now
	out.ForModule("a", ".").Event(acquire.Event{Step: acquire.Installed, Package: one})
	out.Event(acquire.Event{Step: acquire.Installed, Package: one})
	out.progress.End()
	const line = "0 of 1 package, 20/80 MB, 5.0 MB/s, 12s left; acme/one 1.2.0 25%\n"
	// The second tick may come after the other events, or after the end.
	got := stderr.String()
	sourcetest.Expect(t, strings.HasPrefix(got, line) && strings.Count(got, "\n") <= 2, "got\n%s\nwant\n%s", got, line)
	sourcetest.Expect(t, stdout.Len() == 0, "results %s", &stdout)
}

// In a log, a line about all work in progress is about no request.
func TestProgressInALog(t *testing.T) {
	var stdout bytes.Buffer
	out := New(&stdout, &stdout)
	out.KeepLog(true)
	ticks := make(chan time.Time)
	out.progress.Ticks = func(time.Duration) <-chan time.Time { return ticks }
	one := sourcetest.PackageID(t, "acme/one", "1.2.0", sources.CurrentPlatform().String())
	out.ForRequest(1).Event(acquire.Event{Step: acquire.Arriving, Package: one, Size: 80e6})
	ticks <- time.Now()
	out.progress.End()
	sourcetest.Expect(t, strings.Contains(stdout.String(), "Z info - 0 of 1 package"), "%s", &stdout)
}

// With --quiet or --json there are no progress lines.
func TestProgressIsNotTold(t *testing.T) {
	for _, silence := range []func(*Output){
		func(o *Output) { o.Level = Quiet },
		func(o *Output) { o.JSON = true },
	} {
		var stdout, stderr bytes.Buffer
		out := New(&stdout, &stderr)
		silence(out)
		out.progress.Ticks = func(time.Duration) <-chan time.Time {
			t.Error("progress is shown")
			return nil
		}
		out.Event(acquire.Event{Step: acquire.Fetching, Package: sourcetest.PackageID(t, "acme/one", "1.2.0", sources.CurrentPlatform().String())})
		out.progress.End()
		sourcetest.Expect(t, stderr.Len() == 0, "told %s", &stderr)
	}
}
