package cachedir

import (
	"context"
	"fmt"
	"path"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// Evidence returns the evidence for a version, which is kept once one of its packages
// has been stored. The error matches [sources.ErrNotFound] if there is none.
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

// EvidenceOf returns the evidence for an entry, or nil if no evidence supports its
// verdict.
func (d *Dir) EvidenceOf(e Entry) *sources.Signed {
	if r, ok := d.readRecord(recordPath(e.ID)); ok && r.H1 == e.H1 {
		return d.evidenceOf(e.ID, r)
	}
	return nil
}

// evidenceOf returns the evidence for the package of r, with the keys marked that a
// registry listed. The packages of a version share their evidence, so it may have
// changed since the record was made. It is returned if it still supports the verdict.
func (d *Dir) evidenceOf(id sources.PackageID, r record) *sources.Signed {
	return d.resolved(id, r, func() (*sources.Signed, error) { return d.Evidence(id.Provider, id.Version) })
}

// resolved is evidenceOf for the evidence that read returns.
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

// keepEvidence stores s as the evidence for the version of id, merged with the
// evidence that is there. The packages of a version share it, so it takes the
// version's lock.
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

// mergeEvidence stores merged evidence. isNew reports that the version had none
// before.
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

// references returns the references to the evidence for the version of id from all
// records.
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

// compareKeys warns if the version of id is signed with other keys than the nearest
// version with evidence. It is called after writing, so that if two processes store a
// version each, at least one of them compares both.
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

// warnOf is warn for a problem with the version of id.
func (d *Dir) warnOf(id sources.PackageID, err error) {
	if err != nil {
		d.warn(fmt.Errorf("%s %s: %w", id.Provider, id.Version, err))
	}
}
