package age

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources/disk"
)

// A book has the dates of providers' versions, by the provider's address and the version.
type book map[string]map[string]date

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

// add adds dates of a provider to a book, and reports whether that changes it. If there is no room for some of them,
// those are left out, so that nothing is lost.
func (l *Ledger) add(b book, provider string, dates map[string]date, limited bool) (changed bool) {
	known, room := b[provider], mostOfProvider-len(b[provider])
	if limited {
		room = b.room(provider)
	}
	full := false
	for _, v := range slices.Sorted(maps.Keys(dates)) {
		was, isKnown := known[v]
		switch is := was.and(dates[v]); {
		case is == was && isKnown:
		case !isKnown && (room <= 0 || len(v) > longest):
			full = true
		default:
			if known == nil {
				known = map[string]date{}
				b[provider] = known
			}
			if !isKnown {
				room--
			}
			known[v], changed = is, true
		}
	}
	if full && l.opts.Full != nil {
		l.told.Do(func() { l.opts.Full(provider) })
	}
	return changed
}

// room returns how many more versions of a provider there is room for.
func (b book) room(provider string) int {
	host, _, _ := strings.Cut(provider, "/")
	all, ofHost := 0, 0
	for p, versions := range b {
		all += len(versions)
		if strings.HasPrefix(p, host+"/") {
			ofHost += len(versions)
		}
	}
	return min(mostOfProvider-len(b[provider]), mostOfHost-ofHost, most-all)
}

// A file is what the file contains.
type file struct {
	Format    int  `json:"format"`
	Providers book `json:"providers"`
}

// known returns the book. The first call reads it. The caller holds l.mu.
func (l *Ledger) known() book {
	if l.book == nil {
		l.book = l.read()
	}
	return l.book
}

// name returns the name of the file. Runs with and without a shared key don't replace each other's.
func (l *Ledger) name() string {
	if l.opts.Key.Shared() {
		return "shared.json"
	}
	return "own.json"
}

// read reads the file. The book is empty if there is no valid one.
func (l *Ledger) read() book {
	if l.opts.Dir == "" {
		return book{}
	}
	dir, err := l.dir(disk.Open, (*disk.Dir).Sub)
	if err != nil {
		return book{}
	}
	defer dir.Close()
	sealed, _, err := dir.ReadFile(l.name(), maxFile)
	if err != nil {
		return book{}
	}
	text, err := l.opts.Key.Open(subject, sealed)
	var f file
	if err != nil || json.Unmarshal(text, &f) != nil || f.Format != format || f.Providers == nil {
		return book{}
	}
	return f.Providers
}

// dir opens the directory of the files.
func (l *Ledger) dir(
	open func(string) (*disk.Dir, error), sub func(*disk.Dir, string) (*disk.Dir, error),
) (*disk.Dir, error) {
	outer, err := open(l.opts.Dir)
	if err != nil {
		return nil, err
	}
	defer outer.Close()
	return sub(outer, "ages")
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

// write adds what is in the file, which another process may have written since, and replaces it. If that fails, the
// book is valid for this run.
func (l *Ledger) write(ctx context.Context) {
	l.changed, l.written = false, time.Now() // also if it can't be written: the next try would wait again
	dir, unlock := l.lock(ctx)
	if dir == nil {
		return
	}
	defer unlock()
	all := l.read()
	for p, dates := range all {
		l.add(l.book, p, dates, false)
	}
	for p, dates := range l.book {
		l.add(all, p, dates, true)
	}
	if text, err := l.opts.Key.Seal(subject, file{format, all}); err == nil {
		_ = dir.WriteFile(l.name(), text, disk.Synced)
	}
}
