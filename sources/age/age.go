// Package age knows for how long versions of providers have existed, so that rules can exclude new ones.
//
// The age of a version is the time since its origin registry states that it was published, or else since a listing of
// a source that this user trusts has first contained it. Both are measured by the clock of the machine, so setting the
// clock changes ages. A name in a lock file, in a checkout, in a cache, in a bundle or in a request of a client is no
// listing, because it may be that of a version that doesn't exist yet.
//
// The ages are a [store.Ledger] with a single file. If it is full, it keeps what it has.
package age

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/store"
)

// Limits of the file, in versions. A busy site has ten thousand, and the largest provider a thousand. They apply to
// versions that are seen in a run too. What a registry states in a run is limited only for each provider.
const (
	mostOfProvider = 5_000
	mostOfHost     = 50_000
	most           = 150_000
	longest        = 64 // of a version, in bytes; real ones have up to 30
)

// writeEvery is how often a run writes the file at most, until it ends: clients of a server can make it see many
// providers.
const writeEvery = 10 * time.Second

// askEvery is how often a registry is asked about a provider at most. A server runs for months.
const askEvery = time.Hour

// Options adjust a Ledger. The zero Options are ready to use.
type Options struct {
	// Dir contains the directory ages with the file. It is created if it is missing. If it is empty, ages are known
	// only in this run.
	Dir string

	Key      seal.Key         // authenticates the file
	ReadOnly bool             // read the file, and write nothing
	Now      func() time.Time // nil means time.Now

	// Full is called once, with the address of the first provider that has a version for which no room is
	// left. It may be nil.
	Full func(provider string)
}

// A Ledger has the ages of versions. It is safe for concurrent use, also by several processes.
type Ledger struct {
	opts  Options
	asked sources.Memo[question, bool]
	told  sync.Once
	dates *store.Ledger[date] // by the version
	sizes map[string]int      // numbers of dates: of each provider and host, and all of them; nil until one is added
	extra *store.Ledger[date] // what registries state in this run, and dates has no room for

	mu      sync.Mutex
	changed bool      // since it was written
	written time.Time // zero if it wasn't
}

// A date is since when a version is known to exist, in seconds since 1970. One of its fields is 0.
type date struct {
	Published int64 `json:"published,omitempty"` // as the origin registry states it
	Seen      int64 `json:"seen,omitempty"`      // first in a listing
}

// and returns what two dates of a version say together. What a registry states replaces what was seen, and can make a
// version only younger.
func (d date) and(other date) date {
	switch {
	case d.Published != 0 || other.Published != 0:
		return date{Published: max(d.Published, other.Published)}
	case d.Seen == 0 || other.Seen != 0 && other.Seen < d.Seen:
		return other
	}
	return d
}

// A question about a provider has the same answer for some time.
type question struct {
	provider sources.Provider
	at       int64
}

// New returns the ledger with its file in a directory. It reads the file when an age is needed.
func New(opts Options) *Ledger {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Ledger{
		opts: opts, asked: sources.Memo[question, bool]{Max: mostOfProvider},
		dates: store.NewLedger[date](store.Records{Dir: opts.Dir, Key: opts.Key, ReadOnly: opts.ReadOnly}.Ages()),
		extra: store.NewLedger[date](store.LedgerOptions{}),
	}
}

// A Registry states when versions were published.
type Registry struct {
	// Published returns when versions were published, as the origin registry states it. The error matches
	// [sources.ErrUndated] if it states no dates. After another one, nothing is known. Nil means that no registry is
	// asked now.
	Published func(context.Context, sources.Provider) (map[sources.Version]time.Time, error)

	// Asks reports whether the registry of a provider may be asked about it. Nil means that all may be.
	Asks func(context.Context, sources.Provider) bool

	// Mirrored reports whether no registry is ever asked about a provider, because the user has only mirrors for it. Nil
	// means none.
	Mirrored func(context.Context, sources.Provider) bool
}

// Ages are a ledger, with the registry of a root module.
type Ages struct {
	ledger   *Ledger
	registry Registry
	undated  *sync.Map // the providers without stated dates
}

var _ policy.Ages = Ages{}

// With returns the ages of the ledger that learns from a registry.
func (l *Ledger) With(r Registry) Ages { return Ages{l, r, new(sync.Map)} }

// Learn implements [policy.Ages]. It asks the registry only if that hasn't stated when one of the versions was
// published.
func (a Ages) Learn(ctx context.Context, p sources.Provider, versions ...sources.Version) error {
	if a.ledger.stated(p, versions) {
		return nil
	}
	none, err := a.ask(ctx, p)
	if none && !a.ledger.dated(p) {
		a.undated.Store(p, true)
	} else {
		a.undated.Delete(p)
	}
	return err
}

// ask learns from the registry, and reports whether no dates of a provider are stated.
func (a Ages) ask(ctx context.Context, p sources.Provider) (none bool, err error) {
	l := a.ledger
	switch asks := a.registry.Asks == nil || a.registry.Asks(ctx, p); {
	case !asks:
		return a.registry.Mirrored != nil && a.registry.Mirrored(ctx, p), nil
	case a.registry.Published == nil:
		_, none = l.of(p, noVersion)
		return none, nil
	}
	return l.asked.Get(ctx, question{p, l.opts.Now().Unix() / int64(askEvery/time.Second)}, func() (bool, error) {
		times, err := a.registry.Published(ctx, p)
		dates, none := map[string]date{}, errors.Is(err, sources.ErrUndated) && !statesDates(p.Host)
		if none {
			dates[noVersion] = date{Seen: 1}
		} else {
			l.forget(p, noVersion)
		}
		for v, at := range times {
			dates[v.String()] = date{Published: at.Unix()}
		}
		l.note(ctx, p, dates)
		return none, context.Cause(ctx) // without an answer, the time since the versions were first seen applies
	})
}

// noVersion is the entry of a provider whose registry has stated no dates when it was asked the last time.
const noVersion = "-"

// statesDates reports whether a registry is known to state dates. If it has no document about a provider, that is late.
func statesDates(h sources.Host) bool {
	name, _, _ := strings.Cut(string(h), ":")
	name = strings.TrimRight(name, ".")
	return name == string(sources.Terraform.DefaultHost()) || name == string(sources.OpenTofu.DefaultHost())
}

// See implements [policy.Ages]. It is the only way to record that a version has been seen.
func (a Ages) See(ctx context.Context, p sources.Provider, listing sources.Listing) {
	dates := map[string]date{}
	for _, v := range listing.Vouched {
		dates[v.String()] = date{Seen: a.ledger.opts.Now().Unix()}
	}
	a.ledger.note(ctx, p, dates)
}

// Of implements [policy.Ages].
func (a Ages) Of(p sources.Provider, v sources.Version) policy.Age {
	l := a.ledger
	d, known := l.of(p, v.String())
	if !known {
		return policy.Age{}
	}
	_, undated := a.undated.Load(p)
	since := d.Published
	if since == 0 {
		since = d.Seen
	}
	return policy.Age{
		Known: true, AtLeast: max(0, l.opts.Now().Sub(time.Unix(since, 0))), Stated: d.Published != 0,
		Undated: undated,
	}
}

// of returns the date of a version. It reports false if it is unknown.
func (l *Ledger) of(p sources.Provider, version string) (date, bool) {
	d, err := l.dates.Find(p, version)
	if err != nil {
		d, err = l.extra.Find(p, version)
	}
	return d, err == nil
}

// stated reports whether the registry has stated the dates of all versions.
func (l *Ledger) stated(p sources.Provider, versions []sources.Version) bool {
	return !slices.ContainsFunc(versions, func(v sources.Version) bool {
		d, _ := l.of(p, v.String())
		return d.Published == 0
	})
}

// dated reports whether the registry has ever stated the date of a version of the provider.
func (l *Ledger) dated(p sources.Provider) bool {
	for _, ledger := range []*store.Ledger[date]{l.dates, l.extra} {
		all, _ := ledger.All(p)
		for _, d := range all {
			if d.Published != 0 {
				return true
			}
		}
	}
	return false
}

// forget removes an entry of a provider.
func (l *Ledger) forget(p sources.Provider, entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.of(p, entry); known {
		l.dates.Remove(p, entry)
		l.changed = true
	}
}

// note records dates of a provider's versions.
func (l *Ledger) note(ctx context.Context, p sources.Provider, dates map[string]date) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(dates, func(version string, d date) bool {
		was, known := l.of(p, version)
		return known && was.and(d) == was
	})
	if len(dates) > 0 {
		l.add(p, dates)
	}
	if l.changed && time.Since(l.written) > writeEvery {
		l.write(ctx)
	}
}

// add adds dates of a provider that change something. If there is no room for some of them, those are left out, so that
// nothing is lost.
func (l *Ledger) add(p sources.Provider, dates map[string]date) {
	l.dates.Refresh() // another process may have seen them before
	room, full := l.room(p), false
	for i, v := range slices.Sorted(maps.Keys(dates)) {
		was, err := l.dates.Find(p, v)
		switch isNew := err != nil; {
		case isNew && (room <= 0 || len(v) > longest):
			full = true
			if dates[v].Published != 0 && i < mostOfProvider {
				l.extra.Set(p, v, dates[v])
			}
			continue
		case isNew:
			room--
			l.count(1, p.String(), string(p.Host))
		}
		l.dates.Set(p, v, was.and(dates[v]))
		l.changed = true
	}
	if full && l.opts.Full != nil {
		l.told.Do(func() { l.opts.Full(p.String()) })
	}
}

// room returns for how many more versions of a provider there is room.
func (l *Ledger) room(p sources.Provider) int {
	if l.sizes == nil {
		l.sizes = map[string]int{}
		for provider, n := range l.dates.Sizes() { // what can't be read isn't counted
			host, _, _ := strings.Cut(provider, "/")
			l.count(n, provider, host)
		}
	}
	return min(mostOfProvider-l.sizes[p.String()], mostOfHost-l.sizes[string(p.Host)], most-l.sizes[""])
}

// count adds n dates of a provider to the sizes.
func (l *Ledger) count(n int, provider, host string) {
	for _, of := range []string{provider, host, ""} {
		l.sizes[of] += n
	}
}

// write writes what has changed. If that fails, it is valid for this run.
func (l *Ledger) write(ctx context.Context) {
	l.changed, l.written = false, time.Now() // also if it can't be written: the next try would wait again
	_ = l.dates.WriteAll(ctx)
}

// Close writes what has changed.
func (l *Ledger) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed {
		l.write(context.Background())
	}
}
