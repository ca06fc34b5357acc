// Package board keeps the state of all work in progress, and lays it out for the progress display.
package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A Board contains the state of all work in progress. Code that does the work reports to it
// and must not block. The progress display reads it.
type Board struct {
	Now   func() time.Time // tests replace it
	named func(sources.PackageID) string

	mu       sync.Mutex
	begun    time.Time // time of the first item; zero before
	items    []*item   // in progress, in order of their beginning
	at       map[sources.PackageID]*item
	done     map[sources.PackageID]bool // for a root module at least
	failed   map[sources.Provider]bool  // for a root module at least
	arrived  int64                      // bytes of packages that are no longer in progress
	received int64                      // bytes since
	since    time.Time                  // the first bytes; zero before
}

// New returns a board without work, which names packages as users see them.
func New(named func(sources.PackageID) string) *Board {
	return &Board{
		Now: time.Now, named: named, at: map[sources.PackageID]*item{},
		done: map[sources.PackageID]bool{}, failed: map[sources.Provider]bool{},
	}
}

// An item is a package in progress, a provider without a version yet, or work on the whole cache. It shows the root
// module that is furthest.
type item struct {
	id         sources.PackageID // zero for the whole cache
	module     string
	step       acquire.Step
	url        string // of the archive
	waiting    string // lock holder
	done, size int64  // bytes; the size is 0 if unknown

	pause time.Time // time of the next attempt
	why   string    // reason for the pause
	turn  string    // host with too many concurrent downloads
}

// verifying is work on the whole cache instead of a package.
const verifying acquire.Step = "verifying the plugin cache"

// order is the order of an item's steps. With several root modules, events can come in
// another order.
var order = []acquire.Step{
	acquire.Queued, acquire.Querying, acquire.Chosen, acquire.Waiting,
	acquire.Fetching, acquire.Arriving, acquire.Verified, acquire.Stored,
}

// doing describes what follows a step.
var doing = map[acquire.Step]string{
	acquire.Querying: "querying versions", acquire.Chosen: "looking up the package", acquire.Fetching: "requesting",
	acquire.Verified: "unpacking", acquire.Stored: "linking",
}

// Event records a step of a package of a root module.
func (b *Board) Event(module string, e acquire.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Package != (sources.PackageID{}) {
		b.remove(sources.PackageID{}) // the wait for the whole cache has ended
	}
	switch e.Step {
	case acquire.Warned, acquire.Skipped:
		return
	case acquire.Waiting:
		b.wait(e)
		return
	case acquire.Installed, acquire.Settled:
		b.finish(e.Package)
		return
	case acquire.Failed: // for this root module
		b.failed[e.Package.Provider] = true
		for _, it := range slices.Clone(b.items) {
			if it.module == module && it.id.Provider == e.Package.Provider {
				b.remove(it.id)
			}
		}
		return
	case acquire.Chosen:
		b.remove(sources.PackageID{Provider: e.Package.Provider})
	}
	it := b.item(e.Package)
	if it.module != module && slices.Index(order, e.Step) < slices.Index(order, it.step) {
		return
	}
	it.module = module
	switch e.Step {
	case acquire.Fetching:
		it.url, it.done, it.size = e.URL, 0, 0
	case acquire.Arriving:
		b.arrive(it, e)
	}
	it.step = e.Step
}

// arrive counts received bytes. Those of the first event of an item may have been received earlier.
func (b *Board) arrive(it *item, e acquire.Event) {
	if it.step == e.Step {
		b.received += max(0, e.Done-it.done)
	}
	it.step, it.done, it.size, it.pause, it.turn = e.Step, e.Done, e.Size, time.Time{}, ""
	if b.since.IsZero() {
		b.since = b.Now()
	}
}

// wait records a wait for another process. The event is from the cache and does not contain
// the root module.
func (b *Board) wait(e acquire.Event) {
	if e.Package == (sources.PackageID{}) {
		b.item(e.Package)
	}
	if it := b.at[e.Package]; it != nil && slices.Index(order, it.step) <= slices.Index(order, acquire.Waiting) {
		it.step, it.waiting = acquire.Waiting, e.Text
	}
}

// Request records that a request for an archive in progress is repeated, or waits for other downloads.
func (b *Board) Request(e fetch.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range b.items {
		switch {
		case it.url != e.URL:
		case e.Try == 0:
			it.turn = e.Host
		default:
			it.pause, it.why, it.turn = b.Now().Add(e.Wait), e.Err.Error(), ""
		}
	}
}

// Work records the progress of work on the whole cache.
func (b *Board) Work(done, of int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrive(b.item(sources.PackageID{}), acquire.Event{Step: verifying, Done: done, Size: of})
}

// End removes an item, after success or failure.
func (b *Board) End(id sources.PackageID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(id)
}

// item returns the item of a package, which it creates if necessary.
func (b *Board) item(id sources.PackageID) *item {
	it := b.at[id]
	if it == nil {
		it = &item{id: id}
		b.items, b.at[id] = append(b.items, it), it
	}
	if b.begun.IsZero() {
		b.begun = b.Now()
	}
	return it
}

// remove removes an item, if it exists.
func (b *Board) remove(id sources.PackageID) {
	if it, ok := b.at[id]; ok { // there may be thousands of others
		i := slices.Index(b.items, it)
		b.items = slices.Delete(b.items, i, i+1)
		delete(b.at, id)
	}
}

// finish counts a finished package, and keeps its received bytes in the total.
func (b *Board) finish(id sources.PackageID) {
	if b.done[id] = true; b.at[id] != nil {
		b.arrived += b.at[id].done
	}
	b.remove(id)
}

// shown returns the items that are not queued.
func (b *Board) shown() []*item {
	return slices.DeleteFunc(slices.Clone(b.items), func(it *item) bool { return it.step == acquire.Queued })
}

// bar returns the line of an item: how much of it has arrived, or what it waits for.
func (b *Board) bar(it *item, now time.Time) ui.Bar {
	r := ui.Bar{Name: b.named(it.id)}
	switch {
	case it.step == verifying:
		r.Name = "verifying"
	case it.id == (sources.PackageID{}):
		r.Name = "plugin cache"
	}
	switch {
	case it.step == acquire.Waiting:
		r.Text = "waiting for " + it.waiting
	case now.Before(it.pause):
		pause := max(time.Second, it.pause.Sub(now).Round(time.Second))
		r.Text = "trying again in " + pause.String() + ": " + it.why
	case it.turn != "":
		r.Text = "waiting for other downloads from " + it.turn
	case doing[it.step] != "":
		r.Text = doing[it.step]
	default:
		r.Text, r.Done, r.Size = ui.Arrived(it.done, it.size), it.done, it.size
	}
	if it.module != "" {
		r.Text += " for " + it.module
	}
	r.Text = oneLine(r.Text)
	return r
}

// oneLine returns text on one line and without terminal control characters.
func oneLine(text string) string { return ui.Visible(strings.Join(strings.Fields(text), " ")) }

// total returns the line of all items: how many packages are done, how much has arrived, how fast, and what has no
// line.
func (b *Board) total(more int, now time.Time) (r ui.Bar) {
	done, size, known := b.arrived, b.arrived, true
	packages, queued := len(b.done)+len(b.failed), 0
	for _, it := range b.items {
		done += it.done
		size += max(it.done, it.size)
		known = known && (it.size > 0 || b.done[it.id])
		if it.id != (sources.PackageID{}) && !b.done[it.id] {
			packages++
		}
		if it.step == acquire.Queued {
			queued++
		}
	}
	if packages > 0 {
		r.Name = fmt.Sprintf("%d of %s", len(b.done), ui.Count(packages, "package"))
	}
	var texts []string
	if size > 0 && known {
		r.Done, r.Size = done, size
	}
	if size > 0 {
		texts = append(texts, ui.Arrived(done, r.Size))
	}
	if took := now.Sub(b.since); !b.since.IsZero() && took >= time.Second/2 && b.received > 0 {
		rate := int64(float64(b.received) / took.Seconds())
		texts = append(texts, ui.Size(rate)+"/s")
		if left := ui.Left(r.Size-done, rate); left > 0 {
			texts = append(texts, left.String()+" left")
		}
	}
	others := ui.Numbers(ui.N(len(b.failed), "failed"), ui.N(more, "more under way"), ui.N(queued, "queued"))
	r.Text = strings.Join(append(texts, others...), ", ")
	return r
}

// soon is how long work takes at least that has bars.
const soon = 250 * time.Millisecond

// Lines returns the display for a terminal of a size: a line for each item, and a total. They
// are never wider or more than the terminal allows.
func (b *Board) Lines(width, height int, colors bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	if len(b.items) == 0 || now.Sub(b.begun) < soon {
		return nil
	}
	var rows []ui.Bar
	items := b.shown()
	most := min(len(items), max(0, height-2)) // one line for the total, one for the cursor
	for _, it := range items[:most] {
		rows = append(rows, b.bar(it, now))
	}
	total := b.total(len(items)-most, now)
	if alone := len(rows) == 1 && total.Name == ""; alone && rows[0].Size > 0 {
		rows[0].Text = total.Text
	} else if !alone {
		rows = append(rows, total)
	}
	return ui.Bars(rows, width, colors)
}

// Summary returns one line about all work in progress, or "" if there is none.
func (b *Board) Summary() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 {
		return ""
	}
	now := b.Now()
	var states []string
	for _, it := range b.shown() {
		if r := b.bar(it, now); it.step != verifying {
			states = append(states, r.Name+" "+cmp.Or(ui.Percent(r.Done, r.Size), r.Text))
		}
	}
	total := b.total(0, now)
	return strings.TrimSuffix(ui.Together(total.Name, total.Text)+"; "+ui.Some(states, 3), "; ")
}
