package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A board knows what is under way. Code that does the work reports to it and
// must not be kept waiting; the progress display reads it.
type board struct {
	now     func() time.Time
	named   func(sources.PackageID) string
	verbose bool // sources are shown

	mu      sync.Mutex
	begun   time.Time // when there was first something; zero before
	items   []*item   // under way, in the order in which they came
	byKey   map[itemKey]*item
	done    int   // packages
	failed  int   // providers
	arrived int64 // bytes of packages that are no longer under way
	meter   meter
}

// An item is a package under way, a provider with no version yet, or other work.
type item struct {
	itemKey
	step       acquire.Step
	from       string // whom we ask
	url        string // of the archive
	waiting    string // for whom
	done, size int64  // bytes; the size is 0 if unknown
	meter      meter

	pause time.Time // no try is made before
	why   string    // there is a pause
	turn  string    // host that too many archives come from already
}

// An itemKey tells items from one another.
type itemKey struct {
	module string
	id     sources.PackageID
}

// verifying is work at the whole cache, which has no package.
const verifying acquire.Step = "verifying the plugin cache"

// order is in which order the steps of an item come. With several root modules
// nothing else is sure.
var order = []acquire.Step{
	acquire.Queued, acquire.Querying, acquire.Chosen, acquire.Waiting,
	acquire.Fetching, acquire.Arriving, acquire.Verified, acquire.Stored,
}

// event notes a step in the life of a package of a root module.
func (b *board) event(module string, e acquire.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := itemKey{module, e.Package}
	if e.Package != (sources.PackageID{}) {
		b.remove(itemKey{}) // the wait for the whole cache is over
	}
	switch e.Step {
	case acquire.Warned:
		return
	case acquire.Waiting:
		b.wait(e)
		return
	case acquire.Installed, acquire.Settled:
		b.finish(k)
		return
	case acquire.Failed:
		b.fail(module, e.Package.Provider)
		return
	case acquire.Chosen:
		b.remove(itemKey{module, sources.PackageID{Provider: e.Package.Provider}})
	}
	it := b.item(k)
	it.step = e.Step
	switch e.Step {
	case acquire.Fetching:
		it.from, it.url, it.done, it.size, it.meter = e.Source, e.URL, 0, 0, meter{}
	case acquire.Arriving:
		b.arrive(it, e)
	}
}

// arrive counts what has arrived. What the first such event tells may have been
// there before.
func (b *board) arrive(it *item, e acquire.Event) {
	now := b.now()
	news := e.Done - it.done
	it.done, it.size, it.pause, it.turn = e.Done, e.Size, time.Time{}, ""
	switch {
	case it.meter.since.IsZero() || news < 0:
		it.meter.start(now)
	default:
		it.meter.add(now, news)
		b.meter.add(now, news)
	}
	if b.meter.since.IsZero() {
		b.meter.start(now)
	}
}

// wait notes a wait for another process. The event comes from the cache and does not
// say for which root module.
func (b *board) wait(e acquire.Event) {
	if e.Package == (sources.PackageID{}) {
		b.item(itemKey{})
	}
	for _, it := range b.items {
		if it.id == e.Package && it.early() {
			it.step, it.waiting = acquire.Waiting, e.Text
		}
	}
}

// retry notes that a request is made again, if it is for an archive under way.
func (b *board) retry(e fetch.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range b.items {
		if it.url == e.URL {
			it.pause, it.why, it.turn = b.now().Add(e.Wait), e.Err.Error(), ""
		}
	}
}

// turn notes that an archive under way has to wait for others.
func (b *board) turn(e fetch.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range b.items {
		if it.url == e.URL {
			it.turn = e.Host
		}
	}
}

// work notes how far work at the whole cache is.
func (b *board) work(done, of int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it := b.item(itemKey{})
	it.step = verifying
	b.arrive(it, acquire.Event{Done: done, Size: of})
}

// end notes that an item is done with, whether it succeeded or not.
func (b *board) end(k itemKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(k)
}

// item is the item with the key, a new one if there is none.
func (b *board) item(k itemKey) *item {
	if it := b.byKey[k]; it != nil {
		return it
	}
	if b.byKey == nil {
		b.byKey = map[itemKey]*item{}
	}
	if b.begun.IsZero() {
		b.begun = b.now()
	}
	it := &item{itemKey: k}
	b.items, b.byKey[k] = append(b.items, it), it
	return it
}

// remove removes an item, if it is there.
func (b *board) remove(k itemKey) {
	if it := b.byKey[k]; it != nil {
		i := slices.Index(b.items, it)
		b.items = slices.Delete(b.items, i, i+1)
		delete(b.byKey, k)
	}
}

// finish counts a package that is done, and keeps the bytes that arrived for it in the
// total.
func (b *board) finish(k itemKey) {
	b.done++
	if it := b.byKey[k]; it != nil {
		b.arrived += it.done
	}
	b.remove(k)
}

// fail counts a provider that failed, and removes all its packages in the root module.
func (b *board) fail(module string, p sources.Provider) {
	b.failed++
	b.items = slices.DeleteFunc(b.items, func(it *item) bool {
		fails := it.module == module && it.id.Provider == p
		if fails {
			delete(b.byKey, it.itemKey)
		}
		return fails
	})
}

// follows returns a function that reports whether an item gets its package from the
// item of another root module.
func (b *board) follows() func(*item) bool {
	ahead := map[sources.PackageID]bool{}
	for _, it := range b.items {
		if !it.early() {
			ahead[it.id] = true
		}
	}
	return func(it *item) bool { return it.early() && ahead[it.id] }
}

// early reports whether nothing is fetched yet.
func (it *item) early() bool {
	return slices.Index(order, it.step) <= slices.Index(order, acquire.Waiting)
}

// shown are at most n of the items, those that have come furthest if there are
// more, and how many more there are. Those that wait for their turn, or for
// another item, have nothing to show.
func (b *board) shown(n int) (some []*item, more int) {
	follows := b.follows()
	for _, it := range b.items {
		if it.step != acquire.Queued && !follows(it) {
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

// name is what a line begins with. Names of packages on the default registry are short.
func (b *board) name(it *item) string {
	switch {
	case it.step == verifying:
		return "verifying"
	case it.id == (sources.PackageID{}):
		return "plugin cache"
	}
	return b.named(it.id)
}

// state describes an item of which nothing is arriving, empty if something is.
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
		return "unpacking " + Size(it.done)
	case it.step == acquire.Stored:
		return "linking"
	}
	return ""
}

// extra is what is said of an item where there is room: its root module and, with
// --verbose, its source.
func (b *board) extra(it *item) string {
	var words []string
	if b.verbose && it.from != "" {
		words = append(words, "from "+it.from)
	}
	if it.module != "" {
		words = append(words, "for "+it.module)
	}
	return strings.Join(words, " ")
}

// An amount is how much has arrived of how much, in the cells of a line.
type amount struct{ bytes, rate, left string }

// amountOf is an amount, as far as it is known.
func amountOf(done, size int64, known bool, rate int64) (a amount) {
	if a.bytes = Size(done); known {
		a.bytes = sizeOf(done, size)
	}
	if rate > 0 {
		a.rate = Size(rate) + "/s"
	}
	if d := left(size-done, rate); known && d > 0 {
		a.left = d.String() + " left"
	}
	return a
}

// String is the amount in a sentence.
func (a amount) String() string {
	return together(a.bytes, a.rate, a.left)
}

// together joins the texts that are not empty.
func together(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), ", ")
}

// sizeOf is done of size, with the unit once if it is the same: 84/145 MB.
func sizeOf(done, size int64) string {
	a, b := Size(done), Size(size)
	number, unit, _ := strings.Cut(a, " ")
	if strings.HasSuffix(b, " "+unit) {
		a = number
	}
	return a + "/" + b
}

// oneLine is text that stays on one line and commands no terminal.
func oneLine(text string) string { return visible(strings.Join(strings.Fields(text), " ")) }

// bytes are how many bytes have arrived of how many there are, and whether that
// is all.
func (b *board) bytes() (done, size int64, known bool) {
	done, size, known = b.arrived, b.arrived, true
	follows := b.follows()
	for _, it := range b.items {
		done += it.done
		size += max(it.done, it.size)
		known = known && (it.size > 0 || follows(it))
	}
	return done, size, known
}

// packages says how many packages are done: "2 of 3 packages".
func (b *board) packages() string {
	packages := b.done + b.failed
	for _, it := range b.items {
		if it.id != (sources.PackageID{}) {
			packages++
		}
	}
	if packages == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s", b.done, Count(packages, "package"))
}

// rest counts what has no line: packages that failed or wait for their turn, and more
// that are under way.
func (b *board) rest(more int) string {
	queued := 0
	for _, it := range b.items {
		if it.step == acquire.Queued {
			queued++
		}
	}
	var words []string
	for _, part := range []struct {
		n    int
		what string
	}{{b.failed, "failed"}, {more, "more under way"}, {queued, "queued"}} {
		if part.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(words, ", ")
}

// rateWindow is how far back a rate looks.
const rateWindow = 5 * time.Second

// A meter measures how fast something comes.
type meter struct {
	since   time.Time // it runs; zero before it does
	samples []sample
}

// A sample is how many bytes came in a short time.
type sample struct {
	at    time.Time
	bytes int64
}

// start forgets everything and measures from now on.
func (m *meter) start(now time.Time) { *m = meter{since: now} }

// add counts bytes that came since the last time.
func (m *meter) add(now time.Time, bytes int64) {
	m.forget(now)
	if last := len(m.samples) - 1; last >= 0 && now.Sub(m.samples[last].at) < rateWindow/50 {
		m.samples[last].bytes += bytes
		return
	}
	m.samples = append(m.samples, sample{now, bytes})
}

// forget drops samples that are too old to count.
func (m *meter) forget(now time.Time) {
	for len(m.samples) > 0 && now.Sub(m.samples[0].at) >= rateWindow {
		m.samples = m.samples[1:]
	}
}

// rate is bytes a second, 0 if there are none or too little is known.
func (m *meter) rate(now time.Time) int64 {
	m.forget(now)
	span := min(rateWindow, now.Sub(m.since))
	if m.since.IsZero() || span < time.Second/2 {
		return 0
	}
	var sum int64
	for _, s := range m.samples {
		sum += s.bytes
	}
	return int64(float64(sum) / span.Seconds())
}

// left is how long bytes take at a rate of so many a second, 0 if that cannot be
// told.
func left(bytes, rate int64) time.Duration {
	const most = 100 * 60 * 60 // seconds; more than that is as good as never
	if bytes <= 0 || rate <= 0 || bytes/rate >= most {
		return 0
	}
	return time.Duration(max(1, bytes/rate)) * time.Second
}
