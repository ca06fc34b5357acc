package cachedir

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// Recall returns the recorded hashes of a verified package, whether or not the
// package is still in the cache. The error matches [sources.ErrNotFound] if none are
// recorded.
func (d *Dir) Recall(id sources.PackageID) (sources.Stored, error) {
	r, err := d.known.Find(id.Provider, keyOf(id))
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	return d.stored(id, "", r), nil
}

// recognize replaces the proof and the evidence of a package with those that were
// recorded before for the same contents, if those are worth more.
func (t *tx) recognize(r record, signed *sources.Signed) (record, *sources.Signed) {
	old := t.known
	if old.H1 != r.H1 {
		return r, signed
	}
	proof, kept := t.d.evidence.Proof(t.ID, old.Facts)
	if kept == nil || t.worth(proof) <= t.worth(r.Proof) {
		return r, signed
	}
	old.Files, old.From, old.Boot, old.Since = r.Files, r.From, r.Boot, time.Time{}
	old.Proof = proof
	return old, kept
}

// worth returns the verdict on a proof by the settings of this run.
func (t *tx) worth(proof sources.Proof) sources.Verdict {
	return t.d.opts.Judge.Report(t.ID.Provider, proof).Verdict
}

// keepKnown records the hashes of the package of r and returns that record. It keeps
// the time at which they were first recorded.
func (t *tx) keepKnown(ctx context.Context, r record, imported bool) record {
	r.Files, r.From, r.Boot, r.Since, r.Imported = nil, nil, "", t.d.opts.Now().UTC(), imported
	if t.Payload.Local() && !r.Proven() {
		return r
	}
	if old := t.known; old.H1 != "" {
		if r.Imported && !old.Imported && old.H1 != r.H1 {
			return old // the verified hashes stay recorded
		}
		if old.H1 == r.H1 && (old.ZH == r.ZH || r.ZH == "") {
			if t.worth(old.Proof) >= t.worth(r.Proof) && old.Evidence != "" == (r.Evidence != "") && (r.Imported || !old.Imported) {
				return old
			}
			r.Since, r.Imported = old.Since, r.Imported && old.Imported
		}
	}
	t.d.keep(ctx, t.d.known, t.ID, r)
	return r
}

// Recorded returns the platforms for which hashes of the version's packages are
// recorded.
func (d *Dir) Recorded(p sources.Provider, v sources.Version) (all []sources.Platform, err error) {
	records, err := d.known.All(p)
	for key := range records {
		version, platform, _ := strings.Cut(key, "/")
		if parsed, err := sources.ParsePlatform(platform); err == nil && version == v.String() {
			all = append(all, parsed)
		}
	}
	slices.SortFunc(all, comparePlatforms)
	return all, err
}

func comparePlatforms(a, b sources.Platform) int { return strings.Compare(a.String(), b.String()) }

// RecordedVersions returns the versions of a provider for which hashes are recorded, the newest first.
func (d *Dir) RecordedVersions(p sources.Provider) (all []sources.Version, err error) {
	records, err := d.known.All(p)
	for key := range records {
		text, _, _ := strings.Cut(key, "/")
		if v, err := sources.ParseVersion(text); err == nil && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b sources.Version) int { return b.Compare(a) })
	return all, err
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
	return sources.InPackage(id, errors.Join(drop(ctx, d.ledger, id), drop(ctx, d.known, id)))
}
