// Package age knows for how long versions of providers have existed, so that rules can exclude new ones.
//
// The age of a version is the time since its origin registry states that it was published, or else since a listing of
// a source that this user trusts has first contained it. Both are measured by the clock of the machine, so setting the
// clock changes ages. A name in a lock file, in a checkout, in a cache, in a bundle or in a request of a client is no
// listing, because it may be that of a version that doesn't exist yet.
//
// # File
//
//	own.json      sealed with the user's key, see package seal
//	shared.json   sealed with a key that several users or machines have
//	lock          held while one of these is replaced
//
// A file that is damaged, or that was not made with this key, is ignored. A file that is full keeps what it has.
package age

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/seal"
)

// Limits of the file, in versions. A busy site has ten thousand, and the largest provider a thousand. They apply to
// versions that are seen in a run too. What a registry states in a run is limited only for each provider.
const (
	mostOfProvider = 5_000
	mostOfHost     = 50_000
	most           = 150_000
	longest        = 64       // of a version, in bytes; real ones have up to 30
	maxFile        = 32 << 20 // in bytes; the other limits keep it below 20 MB
)

const (
	format  = 2
	subject = "ages of versions" // of the record, for its authentication code
)

// writeEvery is how often a run writes the file at most, until it ends: clients of a server can make it see many
// providers.
const writeEvery = 10 * time.Second

// askEvery is how often a registry is asked about a provider at most. A server runs for months.
const askEvery = time.Hour

var lockWait = 5 * time.Second // another process holds the lock for milliseconds

// Options adjust a Ledger. The zero Options are ready to use.
type Options struct {
	// Dir contains the directory ages with the files. It is created if it is missing. If it is empty, ages are known
	// only in this run.
	Dir string

	Key      seal.Key         // authenticates the files
	ReadOnly bool             // read the files, and write nothing
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

	mu      sync.Mutex
	book    book      // nil until it is read
	changed bool      // since it was read or written
	written time.Time // zero if it wasn't
}

// A question about a provider has the same answer for some time.
type question struct {
	provider sources.Provider
	at       int64
}

// New returns the ledger with its files in a directory. It reads them when an age is needed.
func New(opts Options) *Ledger {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Ledger{opts: opts, asked: sources.Memo[question, bool]{Max: mostOfProvider}}
}

// A Registry states when versions were published.
type Registry struct {
	// Published returns when versions were published, as the origin registry states it. After an error, nothing is
	// known. Nil means that no registry is asked.
	Published func(context.Context, sources.Provider) (map[sources.Version]time.Time, error)

	// Asks reports whether the registry of a provider may be asked about it. Nil means that all may be.
	Asks func(context.Context, sources.Provider) bool
}

// Ages are a ledger, with the registry of a root module.
type Ages struct {
	ledger   *Ledger
	registry Registry
}

var _ policy.Ages = Ages{}

// With returns the ages of the ledger that learns from a registry.
func (l *Ledger) With(r Registry) Ages { return Ages{l, r} }

// Learn implements [policy.Ages]. It asks the registry only if that hasn't stated when one of the versions was
// published.
func (a Ages) Learn(ctx context.Context, p sources.Provider, versions ...sources.Version) error {
	l := a.ledger
	if a.registry.Published == nil || l.stated(p, versions) || a.registry.Asks != nil && !a.registry.Asks(ctx, p) {
		return nil
	}
	_, err := l.asked.Get(ctx, question{p, l.opts.Now().Unix() / int64(askEvery/time.Second)}, func() (bool, error) {
		times, err := a.registry.Published(ctx, p)
		if err != nil {
			return false, context.Cause(ctx) // nil otherwise: the time since the versions were first seen applies
		}
		dates := map[string]date{}
		for v, at := range times {
			dates[v.String()] = date{Published: at.Unix()}
		}
		l.note(ctx, p, dates, false)
		return true, nil
	})
	return err
}

// See implements [policy.Ages]. It is the only way to record that a version has been seen.
func (a Ages) See(ctx context.Context, p sources.Provider, listing sources.Listing) {
	dates := map[string]date{}
	for _, v := range listing.Vouched {
		dates[v.String()] = date{Seen: a.ledger.opts.Now().Unix()}
	}
	a.ledger.note(ctx, p, dates, true)
}

// Of implements [policy.Ages].
func (a Ages) Of(p sources.Provider, v sources.Version) policy.Age {
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	d, known := l.known()[p.String()][v.String()]
	if !known {
		return policy.Age{}
	}
	stated := d.Published != 0
	if !stated {
		d.Published = d.Seen
	}
	return policy.Age{Known: true, AtLeast: max(0, l.opts.Now().Sub(time.Unix(d.Published, 0))), Stated: stated}
}

// stated reports whether the registry has stated the dates of all versions.
func (l *Ledger) stated(p sources.Provider, versions []sources.Version) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.known()[p.String()]
	return !slices.ContainsFunc(versions, func(v sources.Version) bool { return known[v.String()].Published == 0 })
}

// note records dates of a provider's versions.
func (l *Ledger) note(ctx context.Context, p sources.Provider, dates map[string]date, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.add(l.known(), p.String(), dates, limited)
	l.changed = l.changed || changed
	if l.changed && time.Since(l.written) > writeEvery {
		l.write(ctx)
	}
}

// Close writes what has changed.
func (l *Ledger) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed {
		l.write(context.Background())
	}
}
