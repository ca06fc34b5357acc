package board

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A clock stands still until a test advances it.
type clock struct{ elapsed atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(c.elapsed.Load()))
}

func (c *clock) after(d time.Duration) { c.elapsed.Add(int64(d)) }

// pkg parses a package for this machine's platform, or a provider, such as "acme/one 1.2.0".
func pkg(t *testing.T, text string) sources.PackageID {
	t.Helper()
	name, number, versioned := strings.Cut(text, " ")
	if !versioned {
		return sources.PackageID{Provider: sourcetest.Address(t, name)}
	}
	return sourcetest.PackageID(t, name, number, sources.CurrentPlatform().String())
}

// newBoard returns a board with short names of packages, and its clock.
func newBoard() (*Board, *clock) {
	b := New(func(id sources.PackageID) string {
		text := strings.TrimPrefix(id.Provider.String(), "registry.terraform.io/")
		return strings.TrimSpace(text + " " + id.Version.String())
	})
	c := new(clock)
	b.Now = c.now
	return b, c
}

// busy returns a board with items of all kinds.
func busy(t *testing.T) *Board {
	b, c := newBoard()
	one, two, other := pkg(t, "acme/one 1.2.0"), pkg(t, "acme/another-one 10.0.0"), pkg(t, "other.test/acme/one 1.0.0")
	for _, e := range []acquire.Event{
		{Step: acquire.Queued, Package: pkg(t, "acme/late")},
		{Step: acquire.Querying, Package: pkg(t, "acme/one")},
		{Step: acquire.Chosen, Package: pkg(t, "acme/done 1.0.0")},
		{Step: acquire.Installed, Package: pkg(t, "acme/done 1.0.0")},
		{Step: acquire.Chosen, Package: one},
		{Step: acquire.Fetching, Package: one, Source: "registry registry.terraform.io", URL: "https://there.test/one.zip"},
		{Step: acquire.Arriving, Package: one, Done: 1e6, Size: 121e6},
		{Step: acquire.Chosen, Package: two},
		{Step: acquire.Waiting, Package: two, Text: "process 7 on there, at work since 03:04:05"},
		{Step: acquire.Querying, Package: pkg(t, "acme/bad")},
		{Step: acquire.Failed, Package: pkg(t, "acme/bad"), Err: errors.New("bad")},
		{Step: acquire.Fetching, Package: other, Source: "mirror\nhttps://mirror.test/\x1b[2J", URL: "https://there.test/other.zip"},
	} {
		b.Event("", e)
	}
	b.Event("a/b", acquire.Event{Step: acquire.Querying, Package: pkg(t, "acme/third")})
	c.after(2 * time.Second)
	b.Event("", acquire.Event{Step: acquire.Arriving, Package: one, Done: 61e6, Size: 121e6})
	b.Request(fetch.Event{URL: "https://there.test/other.zip", Try: 2, Wait: 3 * time.Second, Err: errors.New("503 Service Unavailable")})
	return b
}

func TestLines(t *testing.T) {
	for _, test := range []struct {
		width, height int
		want          string
	}{
		{130, 24, `
acme/one 1.2.0             ━━━━━━━━━━──────────   50%  61/121 MB
acme/another-one 10.0.0    waiting for process 7 on there, at work since 03:04:05
other.test/acme/one 1.0.0  trying again in 3s: 503 Service Unavailable
acme/third                 querying versions for a/b
1 of 7 packages            61 MB, 30 MB/s, 1 failed, 1 queued`},
		{40, 4, `
acme/one 1.2.0           ━━━━━━━━━━────
acme/another-one 10.0.0  waiting for pr
1 of 7 packages          61 MB, 30 MB/s`},
		{10, 3, `
acme/one 
1 of 7 pa`},
		{2, 3, "\na\n1"},
		{1, 1, "\n"},
	} {
		b := busy(t)
		got := "\n" + strings.Join(b.Lines(test.width, test.height, false), "\n")
		sourcetest.Expect(t, got == test.want, "in %d by %d: got%s\nwant%s", test.width, test.height, got, test.want)
	}
}

// The lines fit terminals of all sizes.
func TestLinesFit(t *testing.T) {
	b := busy(t)
	for width := range 150 {
		for height := 1; height < 8; height++ {
			lines := b.Lines(width, height, false)
			sourcetest.Expect(t, len(lines) <= max(1, height-1), "%d lines where there are %d", len(lines), height)
			if i := slices.IndexFunc(lines, func(l string) bool { return len([]rune(l)) >= max(1, width) }); i >= 0 {
				t.Errorf("%q where there are %d columns", lines[i], width)
			}
		}
	}
}

// Text from other programs cannot break a line or control the terminal.
func TestStateIsOneLine(t *testing.T) {
	sourcetest.Equal(t, oneLine("mirror\nof \x1b[2J\r\u202emine"), `mirror of \x1b[2J \u202emine`)
}

// Work that ends at once has no lines.
func TestLinesComeSoon(t *testing.T) {
	b, c := newBoard()
	b.Event("", acquire.Event{Step: acquire.Chosen, Package: pkg(t, "acme/one 1.2.0")})
	lines := b.Lines(80, 24, false)
	sourcetest.Expect(t, lines == nil, "at once: %q", lines)
	c.after(soon)
	lines = b.Lines(80, 24, false)
	sourcetest.Equal(t, len(lines), 2, "soon", lines)
	b.Event("", acquire.Event{Step: acquire.Installed, Package: pkg(t, "acme/one 1.2.0")})
	lines = b.Lines(80, 24, false)
	sourcetest.Expect(t, lines == nil, "when it is done: %q", lines)
}

// If all sizes are known, the total has a bar and the remaining time.
func TestTotal(t *testing.T) {
	b, c := newBoard()
	one, two := pkg(t, "acme/one 1.2.0"), pkg(t, "acme/two 1.2.0")
	for _, id := range []sources.PackageID{one, two} {
		b.Event("", acquire.Event{Step: acquire.Fetching, Package: id})
		b.Event("", acquire.Event{Step: acquire.Arriving, Package: id, Done: 0, Size: 100e6})
	}
	for range 10 {
		c.after(time.Second)
		one, two := b.items[0], b.items[1]
		b.Event("", acquire.Event{Step: acquire.Arriving, Package: one.id, Done: one.done + 8e6, Size: 100e6})
		b.Event("", acquire.Event{Step: acquire.Arriving, Package: two.id, Done: two.done + 2e6, Size: 100e6})
	}
	lines := b.Lines(100, 24, false)
	sourcetest.Equal(t, lines[2], "0 of 2 packages  ━━━━━━━━━━──────────   50%  100/200 MB, 10 MB/s, 10s left")
	b.Event("", acquire.Event{Step: acquire.Installed, Package: one})
	sourcetest.Equal(t, b.Lines(100, 24, false)[1], "1 of 2 packages  ━━━━━━━━━━━─────────   55%  100/180 MB, 10 MB/s, 8s left")
}

// A wait for the whole cache is shown until the next event.
func TestWaitingForTheCache(t *testing.T) {
	b, c := newBoard()
	b.Event("", acquire.Event{Step: acquire.Waiting, Text: "somebody"})
	c.after(time.Second)
	sourcetest.EqualSlices(t, b.Lines(80, 24, false), []string{"plugin cache  waiting for somebody"})
	b.Event("a", acquire.Event{Step: acquire.Querying, Package: pkg(t, "acme/one")})
	got := b.Lines(80, 24, false)
	sourcetest.Expect(t, len(got) == 2 && !strings.Contains(got[0], "waiting"), "got %q", got)
}

// A package that several root modules require has one line while one of them fetches it.
func TestOneLineForAPackage(t *testing.T) {
	b, c := newBoard()
	one := pkg(t, "acme/one 1.2.0")
	b.Event("a", acquire.Event{Step: acquire.Chosen, Package: one})
	b.Event("b", acquire.Event{Step: acquire.Chosen, Package: one})
	b.Event("b", acquire.Event{Step: acquire.Fetching, Package: one})
	b.Event("b", acquire.Event{Step: acquire.Arriving, Package: one, Done: 0, Size: 4e6})
	b.Event("", acquire.Event{Step: acquire.Waiting, Package: one, Text: "ourselves"})
	c.after(time.Second)
	b.Event("b", acquire.Event{Step: acquire.Arriving, Package: one, Done: 1e6, Size: 4e6})
	want := []string{
		"acme/one 1.2.0  ━━━━━───────────────   25%  1.0/4.0 MB for b",
		"0 of 1 package  ━━━━━───────────────   25%  1.0/4.0 MB, 1.0 MB/s, 3s left",
	}
	sourcetest.EqualSlices(t, b.Lines(100, 24, false), want)
	b.Event("b", acquire.Event{Step: acquire.Installed, Package: one})
	b.Event("a", acquire.Event{Step: acquire.Stored, Package: one})
	sourcetest.EqualSlices(t, b.Lines(100, 24, false), []string{
		"acme/one 1.2.0  linking for a",
		"1 of 1 package  ━━━━━━━━━━━━━━━━━━━━  100%  1.0/1.0 MB, 1.0 MB/s",
	})
}

// An archive that waits for other downloads has that state until it arrives.
func TestTurn(t *testing.T) {
	b, c := newBoard()
	one := pkg(t, "acme/one 1.2.0")
	b.Event("", acquire.Event{Step: acquire.Fetching, Package: one, Source: "there", URL: "https://there.test/one.zip"})
	b.Request(fetch.Event{URL: "https://there.test/one.zip", Host: "there.test"})
	sourcetest.Equal(t, b.bar(b.items[0], c.now()).Text, "waiting for other downloads from there.test")
	b.Event("", acquire.Event{Step: acquire.Arriving, Package: one, Done: 1e6})
	sourcetest.Equal(t, b.bar(b.items[0], c.now()).Text, "1.0 MB")
}

// Work on the whole cache has a line, and no total.
func TestWork(t *testing.T) {
	b, c := newBoard()
	b.Work(0, 20e6)
	c.after(time.Second)
	b.Work(5e6, 20e6)
	sourcetest.EqualSlices(t, b.Lines(100, 24, false), []string{"verifying  ━━━━━───────────────   25%  5.0/20 MB, 5.0 MB/s, 3s left"})
	sourcetest.Equal(t, b.Summary(), "5.0/20 MB, 5.0 MB/s, 3s left")
	b.End(sources.PackageID{})
	sourcetest.Equal(t, b.Summary(), "", "afterwards")
}

func TestSummary(t *testing.T) {
	b := busy(t)
	want := "1 of 7 packages, 61 MB, 30 MB/s, 1 failed, 1 queued; " +
		"acme/one 1.2.0 50%, acme/another-one 10.0.0 waiting for process 7 on there, at work since 03:04:05, " +
		"other.test/acme/one 1.0.0 trying again in 3s: 503 Service Unavailable and 1 more"
	sourcetest.Equal(t, b.Summary(), want)
}
