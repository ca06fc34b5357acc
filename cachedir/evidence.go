package cachedir

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

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
	s, err := (*sources.Signed)(nil), error(sources.ErrNotFound)
	if d.state != nil {
		s, err = evidence.Read(d.state, path)
	}
	for _, at := range d.believed() {
		if !errors.Is(err, sources.ErrNotFound) {
			break
		}
		s, err = evidence.Read(d.common, at+path)
	}
	return s, err
}

// proofOf returns what is proved about the package of r, and the evidence for it, with
// the keys marked that a registry listed.
func (d *Dir) proofOf(id sources.PackageID, r record) (sources.Proof, *sources.Signed) {
	return d.proofBy(id, r, func() (*sources.Signed, error) { return d.Evidence(id.Provider, id.Version) })
}

// proofBy is proofOf for the evidence that read returns. The packages of a version share
// their evidence, so it may have changed since the record was made. What it proves now
// counts then. If it proves nothing, the facts in the record still hold, unless the key
// was revoked since.
func (d *Dir) proofBy(id sources.PackageID, r record, read func() (*sources.Signed, error)) (sources.Proof, *sources.Signed) {
	if r.Evidence == "" {
		return r.Proof, nil
	}
	kept, err := read()
	if err != nil {
		return r.Proof, nil
	}
	s, same := evidence.Resolve(kept, r.Evidence)
	switch {
	case same && r.Proof.Signed():
		return r.Proof, s
	case r.ZH == "":
		return r.Proof, nil
	}
	proof, err := d.opts.Judge.Prove(id.Provider, s, r.ZH)
	switch {
	case errors.Is(err, sources.ErrRevoked):
		return sources.Proof{Matched: r.Proof.Matched}, nil
	case err != nil, r.Proof.Lost(proof) != nil && len(proof.Revoked) == 0:
		return r.Proof, nil
	}
	return r.Proof.And(proof), s
}

// keepEvidence stores s as evidence for the version of id, merged with the evidence that
// is there, and makes r refer to the result if that proves anything about the package.
// The packages of a version share their evidence, so it takes the version's lock.
func (d *Dir) keepEvidence(ctx context.Context, id sources.PackageID, r *record, s *sources.Signed, via *disk.Scratch) error {
	if s == nil {
		return nil
	}
	kept, isNew, err := d.mergeEvidence(ctx, id, s, via)
	if err != nil {
		return err
	}
	if isNew {
		d.compareKeys(id, s)
	}
	if reference := evidence.Reference(kept); reference != r.Evidence && r.ZH != "" {
		if proof, err := d.opts.Judge.Prove(id.Provider, kept, r.ZH); err == nil {
			r.Proof, r.Evidence = r.Proof.And(proof), reference
		}
	}
	return nil
}

// mergeEvidence stores and returns merged evidence, with the keys marked that a registry
// listed. isNew reports that the version had none before.
func (d *Dir) mergeEvidence(ctx context.Context, id sources.PackageID, s *sources.Signed, via *disk.Scratch) (kept *sources.Signed, isNew bool, err error) {
	if d.state != nil {
		unlock, err := d.lockVersion(ctx, id)
		if err != nil {
			return nil, false, err
		}
		defer unlock()
	}
	old, err := d.Evidence(id.Provider, id.Version)
	isNew = err != nil
	unlisted := func(k sources.Key) bool { return !k.Listed() }
	if !isNew && (evidence.Digest(old) != evidence.Digest(s) || slices.ContainsFunc(s.Keys, unlisted)) {
		old, _ = evidence.Resolve(old, d.references(id)...)
		s, err = d.opts.Judge.Merge(id.Provider, old, s)
		d.warnOf(id, err)
	}
	name := evidencePath(id.Provider, id.Version)
	if d.state == nil {
		d.memory.Store(name, s)
		return s, isNew, nil
	}
	return s, isNew, evidence.Write(d.state, name, via.Dir, s)
}

// references returns the references to the evidence for the version of id from all
// records.
func (d *Dir) references(id sources.PackageID) []string {
	if d.state == nil {
		return nil
	}
	var all []string
	for _, dir := range []string{path.Dir(recordPath(id)), path.Dir(knownPath(id))} {
		names, err := d.stateNames(dir)
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
	if d.state == nil {
		return
	}
	names, err := d.stateNames(path.Dir(evidencePath(id.Provider, id.Version)))
	d.warn(err)
	near, ok := evidence.Nearest(names, id.Version)
	if !ok {
		return
	}
	if was, err := d.Evidence(id.Provider, near); err == nil {
		d.warnOf(id, d.opts.Judge.CompareKeys(id.Provider, near, was, now))
	}
}

// warnOf is warn for a problem with the version of id.
func (d *Dir) warnOf(id sources.PackageID, err error) {
	if err != nil {
		d.warn(fmt.Errorf("%s %s: %w", id.Provider, id.Version, err))
	}
}
