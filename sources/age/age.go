// Package age knows for how long versions of providers have existed, so that rules can exclude new ones.
//
// The age of a version is the one that its origin registry states, or else the time since this user's Larder has
// first seen the version. In both cases it is a lower bound: setting a clock back or forward, or losing the file,
// never makes a version older.
//
// # Time
//
// The clock of the machine can be set, so it is not a measure of time. All ages are on a line of time, which begins with
// the file. The line never goes back, and never goes faster than time passes:
//
//   - As long as the system runs, the line follows its uptime, including the time in which it is suspended.
//   - A time in which the system was off, or in which another machine had the file, counts from one answer of a server to
//     another. Its beginning is the later one of the server's time and of the machine's clock, and its end is the earlier
//     one. So it is too long only if a server and the clock are wrong in the same direction.
//   - Without these answers, the line stands still. If a version is then seen for the first time, the line never makes
//     up for the time before.
//
// An age that a registry states is the difference of two times in one response: of its Date header, and of the
// publication. It needs no clock of this machine.
//
// # File
//
// Everything is in one file, so that its parts always belong together. It is sealed, see package seal. A file that is
// damaged, or that was not made with this user's key, is ignored: all versions are then seen for the first time.
//
//	own.json      sealed with the user's key
//	shared.json   sealed with a key that several users or machines have
//	lock          held while one of these is replaced
package age

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/seal"
)

// Options adjust a Ledger. The zero Options are ready to use.
type Options struct {
	Dir      string   // that contains the directory of the files, created if missing; empty means that ages are known only in this run
	Name     string   // of the directory of the files in Dir, with slashes
	Key      seal.Key // authenticates the files
	ReadOnly bool     // read the files, and write nothing
	Clock    Clock    // nil means that of this machine
}

// A Ledger has the ages of versions. It is safe for concurrent use, also by several processes.
type Ledger struct {
	opts  Options
	asked sources.Memo[sources.Provider, bool]

	mu   sync.Mutex
	book *book // nil until it is read
}

// New returns the ledger with its files in a directory. It reads them when an age is needed.
func New(opts Options) *Ledger {
	if opts.Clock == nil {
		opts.Clock = machine{}
	}
	return &Ledger{opts: opts}
}

// A Network is where a root module learns ages from, besides the ledger.
type Network struct {
	// Published returns when versions were published, as the origin registry states it, and the time of its clock
	// at which it did. After an error, nothing is known. Nil means that no registry is asked.
	Published func(context.Context, sources.Provider) (times map[sources.Version]time.Time, asOf time.Time, err error)

	// Asks reports whether the registry of a provider may be asked about it. Nil means that all may be.
	Asks func(context.Context, sources.Provider) bool

	// Seen returns how long ago another ledger has seen a version. Nil means that there is none.
	Seen func(sources.Provider, sources.Version) time.Duration

	// Claimed reports whether a version may not exist, because a mirror in a checkout has it, which could have any. Nil
	// means that all exist.
	Claimed func(context.Context, sources.Provider, sources.Version) bool

	// Date returns the current time by the clocks of servers that answered over TLS in this run. It is zero if there
	// were none. Nil means the same.
	Date func() time.Time
}

// Ages are a ledger, with the network of a root module. The ledger asks about each provider at most once.
type Ages struct {
	ledger *Ledger
	net    Network
}

var _ policy.Ages = Ages{}

// With returns the ages of the ledger that learns from a network.
func (l *Ledger) With(n Network) Ages { return Ages{l, n} }

// Learn asks the origin registry about a provider if it hasn't stated the age of one of the versions, and records
// the versions that are new. Its only error is that of the context.
func (a Ages) Learn(ctx context.Context, p sources.Provider, versions ...sources.Version) error {
	return a.learn(ctx, p, versions, func(v sources.Version) bool { return a.net.Claimed == nil || !a.net.Claimed(ctx, p, v) })
}

// Ask is Learn for a version that may not exist, so it doesn't record that the version has been seen.
func (a Ages) Ask(ctx context.Context, p sources.Provider, claimed sources.Version) error {
	return a.learn(ctx, p, []sources.Version{claimed}, func(sources.Version) bool { return false })
}

// learn is Learn. A version that nothing else has seen is recorded if it exists.
func (a Ages) learn(ctx context.Context, p sources.Provider, versions []sources.Version, exists func(sources.Version) bool) error {
	l := a.ledger
	if a.net.Published != nil && !l.stated(p, versions) && (a.net.Asks == nil || a.net.Asks(ctx, p)) {
		_, err := l.asked.Get(ctx, p, func() (bool, error) { return true, a.ask(ctx, p) })
		if err != nil {
			return err
		}
	}
	versions = slices.DeleteFunc(slices.Clone(versions), func(v sources.Version) bool {
		return !l.has(p, v) && (a.net.Seen == nil || a.net.Seen(p, v) <= 0) && !exists(v)
	})
	return l.update(ctx, a.reading, func(b *book, now time.Duration) bool { return b.see(p, versions, now, a.net.Seen) })
}

// ask asks the origin registry about a provider.
func (a Ages) ask(ctx context.Context, p sources.Provider) error {
	times, asOf, err := a.net.Published(ctx, p)
	if err != nil {
		return context.Cause(ctx) // nil otherwise: the time since the versions were first seen applies
	}
	return a.ledger.update(ctx, a.reading, func(b *book, now time.Duration) bool { return b.state(p, times, asOf, now) })
}

// Of returns how old a version is. It is zero if no Learn has seen the version.
func (a Ages) Of(p sources.Provider, v sources.Version) policy.Age {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	b := a.ledger.known()
	seen, ok := b.Providers[p.String()][v.String()]
	if !ok {
		return policy.Age{}
	}
	return policy.Age{Known: true, AtLeast: max(0, b.Clock.now(a.reading())-seen.Born), Stated: seen.Published > 0}
}

// reading reads all clocks.
func (a Ages) reading() reading {
	r := reading{wall: a.ledger.opts.Clock.Wall()}
	if r.boot, r.uptime = a.ledger.opts.Clock.Uptime(); r.uptime <= 0 {
		r.boot = ""
	}
	if a.net.Date != nil {
		r.server = a.net.Date()
	}
	return r
}

// stated reports whether the registry has stated the ages of all versions.
func (l *Ledger) stated(p sources.Provider, versions []sources.Version) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.known().Providers[p.String()]
	return !slices.ContainsFunc(versions, func(v sources.Version) bool { return known[v.String()].Published == 0 })
}

// has reports whether a version is recorded.
func (l *Ledger) has(p sources.Provider, v sources.Version) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.known().Providers[p.String()][v.String()]
	return ok
}

// known returns the book. The first call reads it. The caller holds l.mu.
func (l *Ledger) known() *book {
	if l.book == nil {
		l.book = cmp.Or(l.read(), newBook())
	}
	return l.book
}

// update changes the book, and its file if it can be written. It changes the clock too, if that has to be kept. The
// caller's change returns whether there was anything to change. The error is that of the context.
func (l *Ledger) update(ctx context.Context, read func() reading, change func(b *book, now time.Duration) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	try := l.known().clone()
	if !try.apply(read(), change) {
		return nil
	}
	dir, unlock := l.lock(ctx)
	if dir == nil { // only for this run
		l.book = try
		return context.Cause(ctx)
	}
	defer unlock()
	l.book = cmp.Or(l.read(), l.book) // another process may have written it since
	if l.book.apply(read(), change) { // the clocks are read under the lock, because the line never goes back
		l.write(dir)
	}
	return nil
}
