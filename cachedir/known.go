package cachedir

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// Recall returns the recorded hashes of a verified package, whether or not the
// package is still in the cache. The error matches [sources.ErrNotFound] if none are
// recorded.
func (d *Dir) Recall(id sources.PackageID) (sources.Stored, error) {
	f, err := d.known.Of(id)
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	return d.stored(id, "", record{Facts: f}), nil
}

// recorded returns the records of a package in ledgers, and then what is known about it. The error is that of a ledger that
// cannot be read.
func (d *Dir) recorded(id sources.PackageID, ledgers ...*ledger) (all []record, err error) {
	add := func(r record, err error) error {
		if err == nil {
			r.Since = cmp.Or(r.Since, r.Written)
			all = append(all, r)
		}
		return err
	}
	for _, l := range ledgers {
		if err := add(l.Find(id.Provider, store.KeyOf(id))); disk.IsUnread(err) {
			return nil, err
		}
	}
	known, err := d.known.Of(id)
	if err == nil {
		if _, kept := d.evidence.Proof(id, known); kept == nil { // it is in another store
			known.Evidence = ""
		}
	}
	if err := add(record{Facts: known}, err); disk.IsUnread(err) {
		return nil, err
	}
	return all, nil
}

// recognize replaces where a package came from, and what was proved about it, with what was
// recorded before for the same contents, if that is worth more.
func (t *tx) recognize(by sources.Provenance) sources.Provenance {
	known, err := t.d.known.Of(t.ID)
	if err != nil || known.H1 != t.Contents.H1 {
		return by
	}
	proof, kept := t.d.evidence.Proof(t.ID, known)
	worth := func(p sources.Proof) sources.Verdict { return t.d.opts.Judge.Report(t.ID.Provider, p).Verdict }
	if worth(proof) <= worth(by.Proof) {
		return by
	}
	t.Contents.ZipH1, t.KeepArchive = known.ZipH1, t.KeepArchive && known.ZH == by.ZH
	by.ZH, by.Filename, by.Origin, by.Proof = known.ZH, known.Filename, known.Origin, proof
	if kept != nil { // otherwise it is in another store
		by.Signed = kept
	}
	return by
}

// keepKnown records the hashes of the package and returns what is known then. It keeps
// the time at which they were first recorded.
func (t *tx) keepKnown(ctx context.Context, f store.Facts) store.Facts {
	f.Since, f.Imported = t.d.opts.Now().UTC(), t.imported
	if !t.Payload.Local() || f.Proven() {
		f = t.d.known.Keep(t.d.opts.Judge, t.ID, f)
		t.d.warn(t.d.known.Write(ctx, t.ID.Provider))
	}
	return f
}

// Recorded returns the platforms for which hashes of the version's packages are
// recorded.
func (d *Dir) Recorded(p sources.Provider, v sources.Version) (all []sources.Platform, err error) {
	ids, err := d.known.Packages(p)
	for _, id := range ids {
		if id.Version == v {
			all = append(all, id.Platform)
		}
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
