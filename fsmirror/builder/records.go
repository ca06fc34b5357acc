package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A record is the hash record of a package.
type record struct {
	store.Facts
	Mark string `json:"mark"` // fingerprint of the package when it was hashed

	differs sources.Hash // hash in the record, if the package was replaced by another
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

// key returns the key of the package's record in the ledger.
func (s spot) key() string {
	key := store.KeyOf(s.id)
	switch name := filepath.Base(s.path); {
	case s.unpacked:
		key += "/"
	case name != s.id.Filename():
		key += "/" + name // engines accept other archive names too
	}
	return key
}

// openLedger prepares the records of the packages: in this user's state directory, or in the mirror if several machines
// share the key.
func (b *Builder) openLedger() {
	opts := b.opts.Records.Ledger(b.path)
	if b.opts.Records.Key.Shared() {
		opts = b.opts.Records.Beside(b.dir, ledgerDir)
		opts.ReadOnly = opts.ReadOnly || b.own == nil
	}
	b.ledger, b.known = store.NewLedger[record](opts), store.NewKnown(b.opts.Records.Known())
}

// learn records what was proved about a package, for all stores of this user. It ignores claims of the mirror alone, and
// contents that differ from the known ones. Otherwise, the maker of a mirror would decide which packages are genuine.
func (b *Builder) learn(id sources.PackageID, f store.Facts) {
	if b.opts.Judge.Report(id.Provider, f.Proof).Verdict <= sources.MirrorEvidence || f.ZH == "" {
		return
	}
	if old, err := b.known.Of(id); errors.Is(err, sources.ErrNotFound) || err == nil && (old.Imported || old.H1 == f.H1) {
		b.known.Keep(b.opts.Judge, id, f)
	}
}

// knows completes a record without proof by what is known about the same contents.
func (b *Builder) knows(id sources.PackageID, r record) record {
	if f, err := b.known.Of(id); err == nil && !f.Imported && f.H1 == r.H1 && (r.ZH == "" || f.ZH == r.ZH) {
		f.Since, f.Sums = r.Since, r.Sums
		if !b.hasEvidence(id) { // it is in another store
			f.Evidence = ""
		}
		r.Facts = f
	}
	return r
}

// writeRecords writes the records. It warns about a failure, which only costs a rehash.
func (b *Builder) writeRecords(ctx context.Context) {
	b.warn(errors.Join(b.ledger.WriteAll(ctx), b.known.WriteAll(ctx)))
}

// recall returns the record of a package. The error matches [sources.ErrNotFound] if
// there is none.
func (b *Builder) recall(at spot) (record, error) { return b.ledger.Find(at.id.Provider, at.key()) }

// note records a package.
func (b *Builder) note(at spot, r record) { b.ledger.Set(at.id.Provider, at.key(), r) }

// mark returns the fingerprint of a package: the fingerprint of its files, see
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

// newEvidence returns the evidence in the mirror. Other programs add evidence to it, such as
// those that copy another mirror over it.
func (b *Builder) newEvidence() *store.Evidence {
	return &store.Evidence{
		Judge: b.opts.Judge, Warn: b.warn, Dir: b.dir, Prefix: own + "/",
		References: b.references, Loose: true, Strict: true,
		Via: func() (*disk.Scratch, error) { return b.work, nil },
		Before: func(r sources.Release, s *sources.Signed) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			return errors.Join(b.change(), b.unindexEvidence(r, s))
		},
	}
}

// Evidence returns the evidence for a version, with the keys marked that a registry
// listed according to the records. The error matches [sources.ErrNotFound] if there
// is none.
func (b *Builder) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	return b.evidence.Marked(sources.Release{Provider: p, Version: v})
}

// Recorded returns the platforms for which hashes of a version are recorded.
func (b *Builder) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	records, err := b.ledger.All(p)
	var all []sources.Platform
	for key := range records {
		name, ok := strings.CutPrefix(key, v.String()+"/")
		name, unpacked := strings.CutSuffix(name, "/")
		if platform, err := sources.ParsePlatform(name); ok && unpacked == b.opts.Unpacked && err == nil {
			all = append(all, platform)
		}
	}
	return all, err
}

// references returns the references to the evidence for a version from all records.
func (b *Builder) references(of sources.Release) []string {
	records, err := b.ledger.All(of.Provider)
	b.warn(err)
	return store.References(records, of)
}

// A ChangedError reports a package that differs from the one that was stored.
type ChangedError struct{ Was, Is sources.Hash }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("it has changed in the mirror: it was %s and is now %s", e.Was, e.Is)
}
