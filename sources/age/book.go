package age

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A book is the contents of the file.
type book struct {
	Format    int                         `json:"format"`
	Clock     clock                       `json:"clock"`
	Providers map[string]map[string]birth `json:"providers"` // by address and version
}

// A birth is since when a version exists.
type birth struct {
	Born      time.Duration `json:"born"`                // point on the line of time; negative if it is before the beginning
	Published int64         `json:"published,omitempty"` // as the registry states it, in seconds since 1970; 0 if it doesn't
}

const (
	format  = 1
	subject = "ages of versions" // of the record, for its authentication code
	maxFile = 64 << 20           // in bytes, enough for a million versions
	oldest  = 100 * 365 * 24 * time.Hour
	slack   = time.Hour // by which an age may be too low
)

var lockWait = 5 * time.Second // another process holds the lock for milliseconds

func newBook() *book { return &book{Format: format, Providers: map[string]map[string]birth{}} }

func (b *book) clone() *book {
	c := *b
	c.Providers = maps.Clone(b.Providers)
	for p, versions := range c.Providers {
		c.Providers[p] = maps.Clone(versions)
	}
	return &c
}

// apply changes the book at the current time. It returns whether the book differs afterwards.
func (b *book) apply(r reading, change func(b *book, now time.Duration) bool) bool {
	born := change(b, b.Clock.now(r))
	return b.Clock.move(r, born)
}

// see records since when versions have been seen: since now, or as long as seen returns. Seen may be nil.
func (b *book) see(p sources.Provider, versions []sources.Version, now time.Duration, seen func(sources.Provider, sources.Version) time.Duration) (changed bool) {
	for _, v := range versions {
		old, ok := b.Providers[p.String()][v.String()]
		if old.Published > 0 {
			continue
		}
		born := now
		if seen != nil {
			born -= min(max(0, seen(p, v)), oldest)
		}
		if !ok || born < old.Born-slack {
			b.set(p, v, birth{Born: born})
			changed = true
		}
	}
	return changed
}

// state records when versions were published, as a registry states it. The latest of several statements about a version
// applies. AsOf is the time of the registry's clock.
func (b *book) state(p sources.Provider, times map[sources.Version]time.Time, asOf time.Time, now time.Duration) (changed bool) {
	for v, published := range times {
		old := b.Providers[p.String()][v.String()]
		latest := max(published.Unix(), old.Published)
		born := now - min(max(0, asOf.Sub(time.Unix(latest, 0))), oldest)
		if latest > old.Published || latest > 0 && born < old.Born-slack { // the line of time may have stood still
			b.set(p, v, birth{born, latest})
			changed = true
		}
	}
	return changed
}

func (b *book) set(p sources.Provider, v sources.Version, born birth) {
	if b.Providers[p.String()] == nil {
		b.Providers[p.String()] = map[string]birth{}
	}
	b.Providers[p.String()][v.String()] = born
}

// name returns the name of the file. Runs with and without a shared key don't replace each other's.
func (l *Ledger) name() string {
	if l.opts.Key.Shared() {
		return "shared.json"
	}
	return "own.json"
}

// read reads the file. It returns nil if there is no valid one.
func (l *Ledger) read() *book {
	if l.opts.Dir == "" {
		return nil
	}
	dir, err := l.dir(disk.Open, (*disk.Dir).Sub)
	if err != nil {
		return nil
	}
	defer dir.Close()
	sealed, _, err := dir.ReadFile(l.name(), maxFile)
	if err != nil {
		return nil
	}
	text, err := l.opts.Key.Open(subject, sealed)
	var b book
	if err != nil || json.Unmarshal(text, &b) != nil || b.Format != format || b.Providers == nil {
		return nil
	}
	return &b
}

// dir opens the directory of the files. Other users may be able to write to the one that contains it.
func (l *Ledger) dir(open func(string) (*disk.Dir, error), sub func(*disk.Dir, string) (*disk.Dir, error)) (*disk.Dir, error) {
	outer, err := open(l.opts.Dir)
	if err != nil {
		return nil, err
	}
	defer outer.Close()
	return sub(outer, l.opts.Name)
}

// lock locks the files. It returns nil if they can't be locked or written.
func (l *Ledger) lock(ctx context.Context) (dir *disk.Dir, unlock func()) {
	if l.opts.Dir == "" || l.opts.ReadOnly || l.opts.Key.Check() != nil {
		return nil, nil
	}
	dir, err := l.dir(disk.Make, (*disk.Dir).MakeSub)
	if err != nil {
		return nil, nil
	}
	ctx, cancel := disk.WithTimeout(ctx, lockWait)
	defer cancel()
	lock := dir.Lock("lock")
	if disk.Wait(ctx, lock.Try, nil) != nil {
		dir.Close()
		return nil, nil
	}
	return dir, func() {
		lock.Unlock()
		dir.Close()
	}
}

// write replaces the file. If that fails, the book is valid for this run.
func (l *Ledger) write(dir *disk.Dir) {
	if text, err := l.opts.Key.Seal(subject, l.book); err == nil {
		_ = dir.WriteFile(l.name(), text, disk.Synced)
	}
}
