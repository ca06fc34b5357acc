package report

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

// A board contains the state of all work in progress. Code that does the work reports to it
// and must not block. The progress display reads it.
type board struct {
	now     func() time.Time
	named   func(sources.PackageID) string
	verbose func() bool // sources are shown

	mu      sync.Mutex
	begun   time.Time                  // time of the first item; zero before
	items   []*item                    // in progress, in order of their beginning
	done    map[sources.PackageID]bool // for a root module at least
	failed  map[sources.Provider]bool  // for a root module at least
	arrived int64                      // bytes of packages that are no longer in progress
	meter   ui.Meter
}

// newBoard returns a board without work.
func newBoard() *board {
	return &board{now: time.Now, done: map[sources.PackageID]bool{}, failed: map[sources.Provider]bool{}}
}

// An item is a package in progress, a provider without a version yet, or work on the whole cache. It shows the root
// module that is furthest.
type item struct {
	id         sources.PackageID // zero for the whole cache
	module     string
	step       acquire.Step
	from       string // source
	url        string // of the archive
	waiting    string // lock holder
	done, size int64  // bytes; the size is 0 if unknown
	meter      ui.Meter

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

// event records a step of a package of a root module.
func (b *board) event(module string, e acquire.Event) {
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
	case acquire.Failed:
		b.fail(module, e.Package.Provider)
		return
	case acquire.Chosen:
		b.remove(sources.PackageID{Provider: e.Package.Provider})
	}
	it := b.item(e.Package)
	if it.module != module && slices.Index(order, e.Step) < slices.Index(order, it.step) {
		return
	}
	it.module, it.step = module, e.Step
	switch e.Step {
	case acquire.Fetching:
		it.from, it.url, it.done, it.size, it.meter = e.Source, e.URL, 0, 0, ui.Meter{}
	case acquire.Arriving:
		b.arrive(it, e)
	}
}

// arrive counts received bytes. It only starts the meter at the first such event, whose bytes
// may have been received earlier.
func (b *board) arrive(it *item, e acquire.Event) {
	now := b.now()
	news := e.Done - it.done
	it.done, it.size, it.pause, it.turn = e.Done, e.Size, time.Time{}, ""
	switch {
	case it.meter.Since.IsZero() || news < 0:
		it.meter.Start(now)
	default:
		it.meter.Add(now, news)
		b.meter.Add(now, news)
	}
	if b.meter.Since.IsZero() {
		b.meter.Start(now)
	}
}

// wait records a wait for another process. The event is from the cache and does not contain
// the root module.
func (b *board) wait(e acquire.Event) {
	if e.Package == (sources.PackageID{}) {
		b.item(e.Package)
	}
	if it := b.find(e.Package); it != nil && it.early() {
		it.step, it.waiting = acquire.Waiting, e.Text
	}
}

// fetching changes the items that fetch an archive.
func (b *board) fetching(url string, change func(*item)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range b.items {
		if it.url == url {
			change(it)
		}
	}
}

// retry records that a request is repeated, if it is for an archive in progress.
func (b *board) retry(e fetch.Event) {
	b.fetching(e.URL, func(it *item) { it.pause, it.why, it.turn = b.now().Add(e.Wait), e.Err.Error(), "" })
}

// turn records that an archive in progress waits for other downloads.
func (b *board) turn(e fetch.Event) { b.fetching(e.URL, func(it *item) { it.turn = e.Host }) }

// work records the progress of work on the whole cache.
func (b *board) work(done, of int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it := b.item(sources.PackageID{})
	it.step = verifying
	b.arrive(it, acquire.Event{Done: done, Size: of})
}

// end removes an item, after success or failure.
func (b *board) end(id sources.PackageID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(id)
}

// find returns the item of a package, or nil.
func (b *board) find(id sources.PackageID) *item {
	if i := slices.IndexFunc(b.items, func(it *item) bool { return it.id == id }); i >= 0 {
		return b.items[i]
	}
	return nil
}

// item returns the item of a package, which it creates if necessary.
func (b *board) item(id sources.PackageID) *item {
	it := b.find(id)
	if it == nil {
		it = &item{id: id}
		b.items = append(b.items, it)
	}
	if b.begun.IsZero() {
		b.begun = b.now()
	}
	return it
}

// remove removes an item, if it exists.
func (b *board) remove(id sources.PackageID) {
	b.items = slices.DeleteFunc(b.items, func(it *item) bool { return it.id == id })
}

// finish counts a finished package, and keeps its received bytes in the total.
func (b *board) finish(id sources.PackageID) {
	if b.done[id] = true; b.find(id) != nil {
		b.arrived += b.find(id).done
	}
	b.remove(id)
}

// fail counts a provider that failed, and removes the packages that are in progress for the root module.
func (b *board) fail(module string, p sources.Provider) {
	b.failed[p] = true
	b.items = slices.DeleteFunc(b.items, func(it *item) bool { return it.module == module && it.id.Provider == p })
}

// installsFor returns the root module that a package is downloaded or installed for, or "".
func (b *board) installsFor(id sources.PackageID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if it := b.find(id); it != nil && !it.early() {
		return it.module
	}
	return ""
}

// early reports whether no download has begun.
func (it *item) early() bool {
	return slices.Index(order, it.step) <= slices.Index(order, acquire.Waiting)
}

// shown returns at most n of the items, and the number of the others. It prefers the items
// with the most progress. It omits items that are queued.
func (b *board) shown(n int) (some []*item, more int) {
	for _, it := range b.items {
		if it.step != acquire.Queued {
			some = append(some, it)
		}
	}
	if len(some) <= n {
		return some, 0
	}
	more = len(some) - n
	furthest := slices.Clone(some)
	slices.SortStableFunc(furthest, func(a, b *item) int {
		return cmp.Compare(slices.Index(order, b.step), slices.Index(order, a.step))
	})
	return slices.DeleteFunc(some, func(it *item) bool { return !slices.Contains(furthest[:n], it) }), more
}

// name returns the beginning of a line. Packages on the default registry have short names.
func (b *board) name(it *item) string {
	switch {
	case it.step == verifying:
		return "verifying"
	case it.id == (sources.PackageID{}):
		return "plugin cache"
	}
	return b.named(it.id)
}

// state describes an item that is not receiving data. It is empty for other items.
func (b *board) state(it *item, now time.Time) string {
	switch {
	case it.step == acquire.Waiting:
		return "waiting for " + it.waiting
	case now.Before(it.pause):
		pause := max(time.Second, it.pause.Sub(now).Round(time.Second))
		return "trying again in " + pause.String() + ": " + it.why
	case it.turn != "":
		return "waiting for other downloads from " + it.turn
	case it.step == acquire.Querying:
		return "querying versions"
	case it.step == acquire.Chosen:
		return "looking up the package"
	case it.step == acquire.Fetching:
		return "requesting"
	case it.step == acquire.Verified:
		return "unpacking " + ui.Size(it.done)
	case it.step == acquire.Stored:
		return "linking"
	}
	return ""
}

// extra returns further details of an item, shown if there is room: its root module and, with
// --verbose, its source.
func (b *board) extra(it *item) string {
	from := after("from ", it.from)
	if !b.verbose() {
		from = ""
	}
	return strings.Join(filled(from, after("for ", it.module)), " ")
}

// oneLine returns text on one line and without terminal control characters.
func oneLine(text string) string { return ui.Visible(strings.Join(strings.Fields(text), " ")) }

// bytes returns the received and the total number of bytes, and whether the total is complete.
func (b *board) bytes() (done, size int64, known bool) {
	done, size, known = b.arrived, b.arrived, true
	for _, it := range b.items {
		done += it.done
		size += max(it.done, it.size)
		known = known && (it.size > 0 || b.done[it.id])
	}
	return done, size, known
}

// arriving returns how much of all packages has arrived, and how fast it does.
func (b *board) arriving(now time.Time) (a ui.Amount) {
	if done, size, known := b.bytes(); size > 0 {
		a = ui.AmountOf(done, size, known, b.meter.Rate(now))
	}
	return a
}

// packages describes how many packages are done: "2 of 3 packages".
func (b *board) packages() string {
	packages := len(b.done) + len(b.failed)
	for _, it := range b.items {
		if it.id != (sources.PackageID{}) && !b.done[it.id] {
			packages++
		}
	}
	if packages == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s", len(b.done), ui.Count(packages, "package"))
}

// rest counts what has no line: packages that failed or wait, and further packages in progress.
func (b *board) rest(more int) string {
	queued := 0
	for _, it := range b.items {
		if it.step == acquire.Queued {
			queued++
		}
	}
	return strings.Join(ui.Numbers(ui.N(len(b.failed), "failed"), ui.N(more, "more under way"), ui.N(queued, "queued")), ", ")
}

// soon is how long work takes at least that has bars.
const soon = 250 * time.Millisecond

// Lines returns the display for a terminal of a size: a line for each item, and a total. They
// are never wider or more than the terminal allows.
func (b *board) Lines(width, height int, colors bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if len(b.items) == 0 || now.Sub(b.begun) < soon {
		return nil
	}
	items, more := b.shown(max(0, height-2)) // one line for the total, one for the cursor
	var rows []ui.Bar
	for _, it := range items {
		r := ui.Bar{Name: b.name(it), State: oneLine(b.state(it, now)), Extra: oneLine(b.extra(it)), Done: it.done, Size: it.size}
		if r.State == "" {
			r.Amount = ui.AmountOf(it.done, it.size, it.size > 0, it.meter.Rate(now))
		}
		rows = append(rows, r)
	}
	if alone := len(items) == 1 && len(b.items) == 1 && items[0].id == (sources.PackageID{}); !alone {
		r := ui.Bar{Name: b.packages(), Extra: b.rest(more), Amount: b.arriving(now)}
		if done, size, known := b.bytes(); known {
			r.Done, r.Size = done, size
		}
		rows = append(rows, r)
	}
	return ui.Bars(rows, width, colors)
}

// cut returns the beginning of text that fits a number of columns, if each letter takes one
// column.
func cut(text string, columns int) string {
	letters := []rune(text)
	return string(letters[:min(len(letters), max(0, columns))])
}

// Summary returns one line about all work in progress, or "" if there is none.
func (b *board) Summary() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 {
		return ""
	}
	now := b.now()
	items, _ := b.shown(len(b.items))
	var states []string
	for _, it := range items {
		state := oneLine(b.state(it, now))
		if it.size > 0 && it.step == acquire.Arriving && !now.Before(it.pause) {
			state = ui.Percent(it.done, it.size)
		}
		if it.step != verifying {
			states = append(states, b.name(it)+" "+cut(state, 60))
		}
	}
	total := ui.Together(b.packages(), b.arriving(now).String(), b.rest(0))
	return strings.Join(filled(total, ui.Some(states, 3)), "; ")
}
