package cachedir

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// knownHashes is the directory in the state with the recorded hashes.
const knownHashes = "known"

func knownPath(id sources.PackageID) string { return statePath(knownHashes, id) }

// Recall returns the recorded hashes of a verified package, whether or not the
// package is still in the cache. The error matches [sources.ErrNotFound] if none are
// recorded.
func (d *Dir) Recall(id sources.PackageID) (sources.Stored, error) {
	r, err := d.tryRecord(knownPath(id))
	switch {
	case err == nil:
		return d.stored(id, "", r), nil
	case disk.IsUnread(err):
		return sources.Stored{}, sources.InPackage(id, err)
	}
	return d.recallEntry(id)
}

// recallEntry is Recall from the record of the entry. It is the fallback for a lost
// hash record.
func (d *Dir) recallEntry(id sources.PackageID) (sources.Stored, error) {
	r, err := d.tryRecord(recordPath(id))
	switch {
	case err == nil && r.Proven():
		r.Since, r.Files = r.used, nil
		return d.stored(id, "", r), nil
	case !disk.IsUnread(err):
		err = fmt.Errorf("%w among the records", sources.ErrNotFound)
	}
	return sources.Stored{}, sources.InPackage(id, err)
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
func (t *tx) keepKnown(r record, imported bool) record {
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
	t.d.keepRecord(knownPath(t.ID), r, t.notes)
	return r
}

// Recorded returns the platforms for which hashes of the version's packages are
// recorded.
func (d *Dir) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	return platformsIn(d.stateNames, p, v, knownPath, recordPath)
}

// platformsIn returns the platforms of the version's files in the state, which paths return for a package.
func platformsIn(list func(dir string) ([]string, error), p sources.Provider, v sources.Version, paths ...func(sources.PackageID) string) ([]sources.Platform, error) {
	any := sources.PackageID{Provider: p, Version: v, Platform: sources.CurrentPlatform()}
	var all []sources.Platform
	for _, file := range paths {
		names, err := list(path.Dir(file(any)))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			name, _ = strings.CutSuffix(name, ".json")
			platform, err := sources.ParsePlatform(name)
			if err == nil && !slices.Contains(all, platform) {
				all = append(all, platform)
			}
		}
	}
	slices.SortFunc(all, func(a, b sources.Platform) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

// RecordedVersions returns the versions of a provider for which hashes are recorded, the newest first.
func (d *Dir) RecordedVersions(p sources.Provider) ([]sources.Version, error) {
	var all []sources.Version
	for _, kind := range []string{knownHashes, packageRecords} {
		names, err := d.stateNames(kind)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, ok := strings.CutPrefix(name, flat(p.String()+"/"))
			v, err := sources.ParseVersion(text)
			if ok && err == nil && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
	}
	slices.SortFunc(all, func(a, b sources.Version) int { return b.Compare(a) })
	return all, nil
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
	return sources.InPackage(id, errors.Join(d.removeState(recordPath(id)), d.removeState(knownPath(id))))
}

// removeState removes a record, and its directory if that is empty afterwards.
func (d *Dir) removeState(name string) error {
	d.memory.Delete(name)
	if err := d.state.Remove(name); err != nil {
		return err
	}
	return d.state.RemoveEmpty(path.Dir(name))
}
