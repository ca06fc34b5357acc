package cachedir

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A record holds the facts about a package and, if it is in place, the state of its files.
type record struct {
	store.Facts
	Written time.Time        `json:"written,omitzero"`
	Link    sources.LinkMode `json:"link,omitempty"` // how it was linked into the working directory
	Boot    string           `json:"boot,omitempty"` // see written
	Files   []mark           `json:"files,omitempty"`
	From    *original        `json:"from,omitempty"` // the origin of a copied package; nil if it was downloaded

	was *record // the record of the verified contents, if these contents differ
}

// unknown reports whether the record isn't about a package whose origin is known, and whose contents are unchanged.
func (r record) unknown() bool { return r.H1 == "" || r.Origin == "" || r.was != nil }

// An original identifies an archive or a directory on this machine at the time the
// package was copied or unpacked from it.
type original struct {
	Path  string `json:"path"`
	Print string `json:"print"` // see [disk.PrintTree]
}

// A ledger has the records of a store.
type ledger = store.Ledger[record]

// The directories in the state with the ledgers of machines that share their key.
const ledgerDir, knownDir = "ledger", "known"

// openLedgers prepares the records of the packages in place, those of the hashes of all packages, and the evidence.
func (d *Dir) openLedgers() {
	places, known := d.opts.Records.Ledger(d.root), d.opts.Records.Known()
	if d.inside && d.opts.Records.Key.Shared() {
		places = d.opts.Records.Beside(d.tree, ".larder/"+ledgerDir)
		known = d.opts.Records.Beside(d.tree, ".larder/"+knownDir)
		places.ReadOnly = places.ReadOnly || d.readOnly != nil
		places.Exposed, known.ReadOnly, known.Exposed = d.shared, places.ReadOnly, d.shared
	}
	d.ledger, d.known = store.NewLedger[record](places), store.NewKnown(known)
	d.roots.Ledger = d.registryIn(registryOfThisUser())
	d.evidence = &store.Evidence{
		Judge: d.opts.Judge, Warn: d.warn, Dir: d.state, Single: true, References: d.references,
		Via: d.stateScratch, Lock: d.lockEvidence,
		Denied: func(err error) error {
			if d.denies(err) {
				return d.explainOwner(err)
			}
			return nil
		},
	}
}

// recordIn returns the record of a package in a ledger. It reports false if there is none.
func recordIn(l *ledger, id sources.PackageID) (record, bool) {
	r, err := l.Find(id.Provider, store.KeyOf(id))
	return r, err == nil
}

// keep replaces the record of an entry. It warns about a failure, which only costs a rehash.
func (d *Dir) keep(ctx context.Context, id sources.PackageID, r record) {
	d.set(d.ledger, id, r)
	d.warn(d.ledger.Write(ctx))
}

// set replaces the record of a package in a ledger, without writing it.
func (d *Dir) set(l *ledger, id sources.PackageID, r record) {
	r.was, r.Written, r.Files = nil, d.opts.Now().UTC(), slices.Clone(r.Files)
	for i := range r.Files {
		r.Files[i].foreign, r.Files[i].unbound = false, false // so that the record never matches such files
	}
	l.Set(id.Provider, store.KeyOf(id), r)
}

// drop removes the record of an entry.
func (d *Dir) drop(ctx context.Context, id sources.PackageID) error {
	d.ledger.Remove(id.Provider, store.KeyOf(id))
	return d.ledger.Write(ctx)
}

// recall returns the first of the records in ledgers that matches the contents of dir,
// which may be the package id. If none does, the record is zero. The error matches
// sources.ErrNotFound if there is no package in dir that an engine could use.
func (d *Dir) recall(id sources.PackageID, dir string, ledgers ...*ledger) (record, error) {
	marks, err := d.scanEntry(dir)
	if err != nil || d.opts.Paranoid {
		return record{}, err
	}
	// A package in a working directory has the last one if it is a copy, and the first one, which has been read, if
	// it is a link.
	for _, l := range ledgers {
		if r, ok := recordOf(l, id, marks); ok {
			if err := d.letExecute(id, dir, r); err != nil {
				return record{}, err
			}
			if l == d.ledger {
				d.noteUse(id)
			}
			return r, nil
		}
	}
	return record{}, nil
}

// recordOf returns the record of a package in a ledger if it is about files with these fingerprints.
func recordOf(l *ledger, id sources.PackageID, marks []mark) (record, bool) {
	r, ok := recordIn(l, id)
	if !ok || !r.survives() || !slices.Equal(r.Files, marks) {
		return record{}, false
	}
	return r, true
}

// noteUse records that a package in a cache is used now, at most once an hour.
func (d *Dir) noteUse(id sources.PackageID) {
	if !d.inside || d.readOnly != nil {
		return
	}
	now := d.opts.Now()
	if noted, ok := d.uses.Load(id); ok && now.Sub(noted.(time.Time)) <= time.Hour {
		return // many root modules use it
	}
	if now.Sub(d.lastUse(id)) > time.Hour {
		_ = d.tree.TouchSub(id.Path(), now)
	}
	d.uses.Store(id, now)
}

// lastUse returns when a package was last used: when its owner last did or, as long as that is not known, when it last
// changed.
func (d *Dir) lastUse(id sources.PackageID) time.Time {
	info, err := os.Stat(d.entry(id))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// written returns the record of files that were just written. A power failure may empty
// them: they then have the recorded sizes and times, but not the contents. Syncing the files
// would take longer than the rest of the work. So if the system has an ID for each
// boot, the record contains the ID and is valid until the next boot. Then the files
// are hashed once.
func written(ctx context.Context, dir *disk.Dir, f store.Facts) (r record, err error) {
	r.Facts, r.Boot = f, disk.Boot()
	if r.Boot == "" {
		err = dir.SyncTree(ctx)
	}
	if err == nil {
		r.Files, err = scan(dir.Path("."))
	}
	return r, errors.Join(err, ctx.Err())
}

// survives reports whether r is valid for files with matching fingerprints: either
// they were synced, or the system has not restarted since they were written.
func (r record) survives() bool { return r.Boot == "" || r.Boot == disk.Boot() }

// inherit completes r, which has only the files, from a record of the same contents in
// the ledgers or among the known hashes. If a record has other
// verified contents, r gets a reference to that record. The error is that of a ledger
// that cannot be read.
func (d *Dir) inherit(id sources.PackageID, r record, ledgers ...*ledger) (record, error) {
	all, err := d.recorded(id, ledgers...)
	for _, old := range all {
		if old.H1 != r.H1 {
			if old.Proven() && r.was == nil {
				r.was = &old
			}
			continue
		}
		old.Files, old.Boot, old.Link, old.was = r.Files, r.Boot, "", nil
		if old.Sums == nil {
			old.Sums = r.Sums
		}
		return old, nil
	}
	return r, err
}

// Recall returns the recorded hashes of a verified package, whether or not the
// package is still in the cache. The error matches [sources.ErrNotFound] if none are
// recorded.
func (d *Dir) Recall(id sources.PackageID) (sources.Stored, error) {
	if under := d.opts.Under; under != nil {
		if s, err := under.Recall(id); !errors.Is(err, sources.ErrNotFound) {
			return s, err
		}
	}
	f, err := d.known.Of(id)
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	return d.stored(id, "", record{Facts: f}), nil
}

// recorded returns the records of a package in ledgers, and then what is known about it. The error is that of a
// ledger that cannot be read.
func (d *Dir) recorded(id sources.PackageID, ledgers ...*ledger) (all []record, err error) {
	for _, l := range ledgers {
		r, err := l.Find(id.Provider, store.KeyOf(id))
		switch {
		case err == nil:
			r.Since = cmp.Or(r.Since, r.Written)
			all = append(all, r)
		case disk.IsUnread(err):
			return nil, err
		}
	}
	known, err := d.known.Of(id)
	switch {
	case err == nil && known.H1 == "": // an archive in a mirror; nothing to compare files with
	case err == nil:
		if _, kept := d.evidence.Proof(id, known); kept == nil { // it is in another store
			known.Evidence = ""
		}
		all = append(all, record{Facts: known})
	case disk.IsUnread(err):
		return nil, err
	}
	return all, nil
}

// recognize replaces where a package came from, and what was proved about it, with what was
// recorded before for the same contents, if that is worth more.
func (t *tx) recognize(by sources.Provenance) sources.Provenance {
	known, err := t.d.known.Of(t.ID)
	now := sources.Stored{H1: t.Contents.H1, ZH: by.ZH}
	if err != nil || !now.Same(sources.Stored{H1: known.H1, ZH: known.ZH}) {
		return by
	}
	proof, kept := t.d.evidence.Proof(t.ID, known)
	worth := func(p sources.Proof) sources.Verdict { return t.d.opts.Judge.Report(t.ID.Provider, p).Verdict }
	if worth(proof) <= worth(by.Proof) {
		return by
	}
	if known.H1 != "" {
		t.Contents.ZipH1 = known.ZipH1
	}
	t.KeepArchive = t.KeepArchive && known.ZH == by.ZH
	by.ZH, by.Filename, by.Origin, by.Proof = known.ZH, known.Filename, known.Origin, proof
	if kept != nil { // otherwise it is in another store
		by.Signed = kept
	}
	return by
}

// keepKnown records the hashes of the package and returns what is known then. It keeps
// the time at which they were first recorded. Like a mirror, a bundle doesn't decide which packages are genuine.
func (t *tx) keepKnown(ctx context.Context, f store.Facts) store.Facts {
	f.Since = t.d.opts.Now().UTC()
	claimed := t.bundled && t.d.opts.Judge.Report(t.ID.Provider, f.Proof).Verdict <= sources.MirrorEvidence
	if !claimed && (!t.Payload.Local() || f.Proven()) {
		f = t.d.known.Keep(t.d.opts.Judge, t.ID, f)
		t.d.warn(t.d.known.Write(ctx))
	}
	return f
}

// Recorded returns the platforms for which hashes of the version's packages are
// recorded.
func (d *Dir) Recorded(p sources.Provider, v sources.Version) (all []sources.Platform, err error) {
	r := sources.Release{Provider: p, Version: v}
	ids, err := d.known.PackagesOf(r)
	if under := d.opts.Under; under != nil {
		more, underErr := under.known.PackagesOf(r)
		ids, err = append(ids, more...), errors.Join(err, underErr)
	}
	for _, id := range ids {
		all = append(all, id.Platform)
	}
	return all, err
}

// RecordedVersions returns the versions of a provider for which hashes are recorded, the newest first.
func (d *Dir) RecordedVersions(p sources.Provider) (all []sources.Version, err error) {
	ids, err := d.known.Packages(p)
	for _, id := range slices.Backward(ids) {
		all = append(all, id.Version)
	}
	return slices.Compact(all), err
}

// Forget removes the recorded hashes of a package, so that different contents may
// replace it. The package itself stays in place until then.
func (d *Dir) Forget(ctx context.Context, id sources.PackageID) error {
	if d.readOnly != nil {
		return d.unwritable()
	}
	unlock, err := d.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	return sources.InPackage(id, errors.Join(d.drop(ctx, id), d.known.Forget(ctx, id)))
}

// Evidence returns the evidence for a version, which is kept once one of its packages
// has been stored. The error matches [sources.ErrNotFound] if there is none.
func (d *Dir) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	if under := d.opts.Under; under != nil {
		if signed, err := under.Evidence(p, v); err == nil {
			return signed, nil
		}
	}
	return d.evidence.Read(sources.Release{Provider: p, Version: v})
}

// references returns the references to the evidence for a version from all records.
func (d *Dir) references(of sources.Release) []string {
	places, err := d.ledger.OfVersion(of)
	known, knownErr := d.known.OfVersion(of)
	d.warn(errors.Join(err, knownErr))
	return append(store.References(places), store.References(known)...)
}
