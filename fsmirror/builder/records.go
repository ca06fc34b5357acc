package builder

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
)

// A ledger holds the records of a provider's packages by VERSION/OS_ARCH, separately
// for packed and unpacked ones.
type ledger struct {
	Format   int               `json:"format"`
	Packed   map[string]record `json:"packed"`
	Unpacked map[string]record `json:"unpacked"`

	changed bool
	foreign bool  // not authenticated with this user's key
	unread  error // error of the file system; the ledger is then not replaced
}

// A record is the hash record of a package. It contains what was proved about the
// package, and no verdict: that depends on the settings of each run.
type record struct {
	Mark     string        `json:"mark"` // fingerprint of the package when it was hashed
	H1       sources.Hash  `json:"h1"`
	ZipH1    sources.Hash  `json:"zip_h1,omitempty"`
	ZH       sources.Hash  `json:"zh,omitempty"`
	Proof    sources.Proof `json:"proof,omitzero"`
	Origin   string        `json:"origin,omitempty"`
	Evidence string        `json:"evidence,omitempty"` // reference to the evidence for the proof, see [evidence.Reference]
	Since    time.Time     `json:"since"`              // when it was first seen

	// Verdict is set in ledgers of format 2, which have no proofs. It reports that
	// something matched; what the evidence proves is determined again.
	Verdict *sources.Verdict `json:"verdict,omitempty"`

	differs sources.Hash // hash in the record, if the package was replaced by another
}

const (
	ledgerFormat, verdictFormat = 3, 2

	maxLedger = 64 << 20 // in bytes, enough for tens of thousands of packages
)

// of returns the part of the ledger for packages of one layout.
func (l *ledger) of(unpacked bool) map[string]record {
	if unpacked {
		return l.Unpacked
	}
	return l.Packed
}

// A spot is the place of a package in the mirror.
type spot struct {
	id       sources.PackageID
	unpacked bool
	path     string
}

// place returns the standard place of a package.
func (b *Builder) place(id sources.PackageID, unpacked bool) spot {
	if unpacked {
		return spot{id, true, filepath.Join(b.path, filepath.FromSlash(id.Path()))}
	}
	return spot{id, false, filepath.Join(b.home(id.Provider), id.Filename())}
}

// key returns the key of the package's record in a ledger.
func (s spot) key() string {
	key := s.id.Version.String() + "/" + s.id.Platform.String()
	if name := filepath.Base(s.path); !s.unpacked && name != s.id.Filename() {
		key += "/" + name // engines accept other archive names too
	}
	return key
}

func (b *Builder) ledgerPath(p sources.Provider) string {
	return b.state("known", filepath.FromSlash(p.String())+".json")
}

// ledger returns the ledger of a provider. The caller holds b.mu.
func (b *Builder) ledger(p sources.Provider) *ledger {
	l, ok := b.known[p]
	if !ok {
		l = readLedger(b.ledgerPath(p), b.opts.Key, ledgerName(p))
		b.known[p] = l
	}
	return l
}

// readLedger reads a ledger. A missing, invalid or unreadable ledger is empty. A
// ledger that was not made with this user's key only serves to detect changes.
func readLedger(path string, key seal.Key, name string) *ledger {
	l := &ledger{}
	data, err := disk.ReadFile(path, maxLedger)
	if err == nil {
		var own json.RawMessage
		if own, err = key.Open(name, data); errors.Is(err, seal.ErrForeign) {
			var foreign struct{ Record json.RawMessage }
			err = json.Unmarshal(data, &foreign)
			own, l.foreign = foreign.Record, true
		}
		if err == nil {
			err = json.Unmarshal(own, l)
		}
	}
	if l.Format == verdictFormat {
		l.modernise()
	}
	if err != nil || l.Format != ledgerFormat || l.Packed == nil || l.Unpacked == nil {
		l = &ledger{Format: ledgerFormat, Packed: map[string]record{}, Unpacked: map[string]record{}}
	}
	if disk.IsUnread(err) {
		l.unread = err
	}
	return l
}

// modernise turns a ledger of format 2 into one of the current format.
func (l *ledger) modernise() {
	l.Format = ledgerFormat
	for _, records := range []map[string]record{l.Packed, l.Unpacked} {
		for key, r := range records {
			r.Proof.Matched = r.Verdict != nil && *r.Verdict > sources.Unverified
			r.Verdict = nil
			records[key] = r
		}
	}
}

// ledgerName returns the name of a ledger for its authentication code.
func ledgerName(p sources.Provider) string { return "mirror " + p.String() }

// recall returns the record of a package. The error matches [sources.ErrNotFound] if
// there is no authenticated record.
func (b *Builder) recall(at spot) (record, error) {
	r, foreign, err := b.claimed(at)
	if err == nil && foreign {
		return record{}, sources.ErrNotFound
	}
	return r, err
}

// claimed is recall that also returns the records of other users; foreign reports
// those.
func (b *Builder) claimed(at spot) (r record, foreign bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.ledger(at.id.Provider)
	r, ok := l.of(at.unpacked)[at.key()]
	switch {
	case l.unread != nil:
		return r, false, l.unread
	case !ok:
		return r, false, sources.ErrNotFound
	}
	return r, l.foreign, nil
}

// note records a package.
func (b *Builder) note(at spot, r record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.ledger(at.id.Provider)
	l.disown()
	l.of(at.unpacked)[at.key()] = r
	l.changed = true
}

// disown removes the records of other users before the first own record is added.
func (l *ledger) disown() {
	if l.foreign {
		*l = ledger{Format: ledgerFormat, Packed: map[string]record{}, Unpacked: map[string]record{}}
	}
}

// forget removes the record of a package.
func (b *Builder) forget(at spot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.ledger(at.id.Provider)
	l.disown()
	delete(l.of(at.unpacked), at.key())
	l.changed = true
}

// keepLedgers writes the changed ledgers. The caller holds b.mu.
func (b *Builder) keepLedgers() error {
	for _, p := range slices.SortedFunc(maps.Keys(b.known), sources.Provider.Compare) {
		l := b.known[p]
		if !l.changed {
			continue
		}
		if l.unread != nil {
			return l.unread
		}
		data, err := b.opts.Key.Seal(ledgerName(p), l)
		if err != nil {
			return err
		}
		if err := b.write(b.ledgerPath(p), data); err != nil {
			return err
		}
		l.changed = false
	}
	return nil
}

// mark returns the fingerprint of a package, which is that of its files, see
// [disk.Print]. Except on Windows it includes the change times, which no user can
// set, so a copied package is hashed. The fingerprint is empty if there is no
// package.
func mark(at spot) (string, error) {
	info, err := os.Stat(at.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case info.IsDir() != at.unpacked || !info.IsDir() && !info.Mode().IsRegular():
		return "", nil
	}
	return disk.PrintTree(at.path)
}
