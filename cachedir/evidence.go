package cachedir

import (
	"context"
	"fmt"
	"path"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// Evidence is the evidence for a version, kept since one of its packages was
// stored. The error matches [sources.ErrNotFound] if nothing is kept.
func (d *Dir) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	path := evidencePath(p, v)
	if s, ok := d.memory.Load(path); ok {
		return s.(*sources.Signed), nil
	}
	if d.state == nil {
		return nil, sources.ErrNotFound
	}
	return evidence.Read(d.state.Path(path))
}

// EvidenceOf is the evidence for an entry, nil if none is kept that bears out its
// verdict.
func (d *Dir) EvidenceOf(e Entry) *sources.Signed {
	if r, ok := d.readRecord(recordPath(e.ID)); ok && r.H1 == e.H1 {
		return d.evidenceOf(e.ID, r)
	}
	return nil
}

// evidenceOf is the evidence for the package of r, with the keys marked that a
// registry listed. What is kept may have changed since the record was made, as the
// packages of a version share it. It still counts if it bears out the verdict.
func (d *Dir) evidenceOf(id sources.PackageID, r record) *sources.Signed {
	return d.resolved(id, r, func() (*sources.Signed, error) { return d.Evidence(id.Provider, id.Version) })
}

// resolved is evidenceOf with the evidence that read returns.
func (d *Dir) resolved(id sources.PackageID, r record, read func() (*sources.Signed, error)) *sources.Signed {
	if r.Evidence == "" {
		return nil
	}
	kept, err := read()
	if err != nil {
		return nil
	}
	s, same := evidence.Resolve(kept, r.Evidence)
	if same {
		return s
	}
	if d.opts.Vouch == nil || r.ZH == "" {
		return nil
	}
	verdict, err := d.opts.Vouch(stored(id, "", r, s))
	if err != nil || verdict < r.Verdict {
		return nil
	}
	return s
}

// keepEvidence keeps s for the version of id, or what is better. The packages of a
// version share it, so there is a lock for the version.
func (d *Dir) keepEvidence(ctx context.Context, id sources.PackageID, s *sources.Signed, via *disk.Scratch) error {
	if s == nil {
		return nil
	}
	isNew, err := d.mergeEvidence(ctx, id, s, via)
	if isNew && err == nil {
		d.compareKeys(id, s)
	}
	return err
}

// mergeEvidence reports whether there was no evidence for the version before.
func (d *Dir) mergeEvidence(ctx context.Context, id sources.PackageID, s *sources.Signed, via *disk.Scratch) (isNew bool, err error) {
	if d.state != nil {
		unlock, err := d.lockVersion(ctx, id)
		if err != nil {
			return false, err
		}
		defer unlock()
	}
	old, err := d.Evidence(id.Provider, id.Version)
	isNew = err != nil
	if !isNew && d.opts.Merge != nil && evidence.Digest(old) != evidence.Digest(s) {
		old, _ = evidence.Resolve(old, d.references(id)...)
		s, err = d.opts.Merge(id.Provider, old, s)
		d.warnOf(id, err)
	}
	name := evidencePath(id.Provider, id.Version)
	if d.state == nil {
		d.memory.Store(name, s)
		return isNew, nil
	}
	return isNew, evidence.Write(d.state, name, via.Dir, s)
}

// references are those to the evidence for the version of id, in all records.
func (d *Dir) references(id sources.PackageID) []string {
	if d.state == nil {
		return nil
	}
	var all []string
	for _, dir := range []string{path.Dir(recordPath(id)), path.Dir(knownPath(id))} {
		names, err := namesIn(d.state, dir)
		d.warn(err)
		for _, name := range names {
			if r, ok := d.readRecord(dir + "/" + name); ok {
				all = append(all, r.Evidence)
			}
		}
	}
	return all
}

// compareKeys warns if other keys have signed the version of id than the nearest one
// that there is evidence for. It comes after writing, so that of two processes that
// store a version each, one sees the other's.
func (d *Dir) compareKeys(id sources.PackageID, now *sources.Signed) {
	if d.opts.Compare == nil || d.state == nil {
		return
	}
	names, err := namesIn(d.state, path.Dir(evidencePath(id.Provider, id.Version)))
	d.warn(err)
	near, ok := evidence.Nearest(names, id.Version)
	if !ok {
		return
	}
	if was, err := d.Evidence(id.Provider, near); err == nil {
		d.warnOf(id, d.opts.Compare(id.Provider, near, was, now))
	}
}

// warnOf is warn for what concerns the version of id.
func (d *Dir) warnOf(id sources.PackageID, err error) {
	if err != nil {
		d.warn(fmt.Errorf("%s %s: %w", id.Provider, id.Version, err))
	}
}
