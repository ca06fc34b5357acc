package cachedir

import (
	"context"
	"errors"
	"time"

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

// recorded returns the records of a package in ledgers, and what is known about it. The error is that of a ledger that
// cannot be read.
func (d *Dir) recorded(id sources.PackageID, ledgers ...*ledger) (all []record, err error) {
	for _, l := range ledgers {
		r, err := l.Find(id.Provider, store.KeyOf(id))
		if disk.IsUnread(err) {
			return nil, err
		}
		if err == nil {
			all = append(all, r)
		}
	}
	known, err := d.known.Of(id)
	if disk.IsUnread(err) {
		return nil, err
	}
	if err == nil {
		if _, kept := d.evidence.Proof(id, known); kept == nil { // it is in another store
			known.Evidence = ""
		}
		all = append(all, record{Facts: known})
	}
	return all, nil
}

// recognize replaces the proof and the evidence of a package with those that were
// recorded before for the same contents, if those are worth more.
func (t *tx) recognize(r record, signed *sources.Signed) (record, *sources.Signed) {
	known, err := t.d.known.Of(t.ID)
	if err != nil || known.H1 != r.H1 {
		return r, signed
	}
	proof, kept := t.d.evidence.Proof(t.ID, known)
	worth := func(p sources.Proof) sources.Verdict { return t.d.opts.Judge.Report(t.ID.Provider, p).Verdict }
	if worth(proof) <= worth(r.Proof) {
		return r, signed
	}
	known.Proof, known.Since = proof, time.Time{}
	r.Facts = known
	if kept == nil { // it is in another store
		r.Evidence = ""
		return r, signed
	}
	return r, kept
}

// keepKnown records the hashes of the package of r and returns what is known then. It keeps
// the time at which they were first recorded.
func (t *tx) keepKnown(ctx context.Context, r record, imported bool) record {
	f := r.Facts
	f.Since, f.Imported = t.d.opts.Now().UTC(), imported
	if !t.Payload.Local() || f.Proven() {
		f = t.d.known.Keep(t.d.opts.Judge, t.ID, f)
		t.d.warn(t.d.known.Write(ctx, t.ID.Provider))
	}
	return record{Facts: f}
}

// Recorded returns the platforms for which hashes of the version's packages are
// recorded.
func (d *Dir) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	return d.known.Platforms(p, v)
}

// RecordedVersions returns the versions of a provider for which hashes are recorded, the newest first.
func (d *Dir) RecordedVersions(p sources.Provider) ([]sources.Version, error) {
	return d.known.Versions(p)
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
	return sources.InPackage(id, errors.Join(drop(ctx, d.ledger, id), d.known.Forget(ctx, id)))
}
