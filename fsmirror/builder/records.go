package builder

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/store"
)

// A ledger holds the records of a provider's packages by VERSION/OS_ARCH, separately
// for packed and unpacked ones.
type ledger struct {
	Format   int               `json:"format"`
	Packed   map[string]record `json:"packed"`
	Unpacked map[string]record `json:"unpacked"`

	changed bool
	foreign bool              // not authenticated with this user's key
	others  []json.RawMessage // ledgers of other users in the same file, sealed with their keys
	unread  error             // error of the file system; the ledger is then not replaced
}

// A record is the hash record of a package.
type record struct {
	store.Facts
	Mark string `json:"mark"` // fingerprint of the package when it was hashed

	differs sources.Hash // hash in the record, if the package was replaced by another
}

const maxLedger = 64 << 20 // in bytes, enough for tens of thousands of packages

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

// ledgerPath returns the path of a ledger in the mirror.
func ledgerPath(p sources.Provider) string { return own + "/known/" + p.String() + ".json" }

// ledger returns the ledger of a provider. The caller holds b.mu.
func (b *Builder) ledger(p sources.Provider) *ledger {
	l, ok := b.known[p]
	if !ok {
		l = b.readLedger(p)
		b.known[p] = l
	}
	return l
}

// readLedger reads a ledger. A missing, invalid or unreadable ledger is empty. A
// ledger that was not made with this user's key only serves to detect changes.
func (b *Builder) readLedger(p sources.Provider) *ledger {
	l := &ledger{}
	data, err := b.read(ledgerPath(p), maxLedger)
	if err == nil {
		err = l.parse(data, b.opts.Key, ledgerName(p))
	}
	if err != nil || l.Format != store.Format || l.Packed == nil || l.Unpacked == nil {
		l = &ledger{Format: store.Format, Packed: map[string]record{}, Unpacked: map[string]record{}}
	}
	if disk.IsUnread(err) {
		l.unread = err
	}
	return l
}

// A ledgerFile is the sealed ledger of the user who wrote last, and those of others who
// write to the mirror. Each user believes only their own.
type ledgerFile struct {
	MAC    string            `json:"mac"`
	Record json.RawMessage   `json:"record"`
	Others []json.RawMessage `json:"others,omitempty"` // each a ledgerFile without Others
}

const maxOthers = 15 // ledgers of other users that are kept, those of the last writers

// parse reads the ledger of this user, or else that of another one.
func (l *ledger) parse(data []byte, key seal.Key, name string) error {
	var file ledgerFile
	if err := json.Unmarshal(data, &file); err != nil {
		return err
	}
	last, err := json.Marshal(ledgerFile{MAC: file.MAC, Record: file.Record})
	if err != nil {
		return err
	}
	l.others = append([]json.RawMessage{last}, file.Others...)
	for i, sealed := range l.others {
		own, err := key.Open(name, sealed)
		if err == nil {
			l.others = slices.Delete(slices.Clone(l.others), i, i+1)
			return json.Unmarshal(own, l)
		}
		if !errors.Is(err, seal.ErrForeign) {
			return err
		}
	}
	l.foreign = true
	return json.Unmarshal(file.Record, l)
}

// seal returns the text of the ledger's file.
func (l *ledger) seal(key seal.Key, name string) ([]byte, error) {
	own, err := key.Seal(name, l)
	if err != nil || len(l.others) == 0 {
		return own, err
	}
	var file ledgerFile
	if err := json.Unmarshal(own, &file); err != nil {
		return nil, err
	}
	file.Others = l.others[:min(len(l.others), maxOthers)]
	return json.Marshal(file)
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

// disown begins an own ledger before the first own record is added. Those of other users
// stay in the file.
func (l *ledger) disown() {
	if l.foreign {
		*l = ledger{Format: store.Format, Packed: map[string]record{}, Unpacked: map[string]record{}, others: l.others}
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
	var errs []error
	for _, p := range slices.SortedFunc(maps.Keys(b.known), sources.Provider.Compare) {
		if l := b.known[p]; l.changed {
			errs = append(errs, b.keepLedger(p, l))
		}
	}
	return errors.Join(errs...)
}

func (b *Builder) keepLedger(p sources.Provider, l *ledger) error {
	if l.unread != nil {
		return l.unread
	}
	data, err := l.seal(b.opts.Key, ledgerName(p))
	if err == nil {
		err = b.write(b.dir.Path(ledgerPath(p)), data)
	}
	l.changed = err != nil
	return err
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
