package cachedir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

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

// evidenceOf is the evidence that came with the package of r, if it is still
// the one that is kept.
func (d *Dir) evidenceOf(id sources.PackageID, r record) *sources.Signed {
	if r.Evidence == "" {
		return nil
	}
	s, err := d.Evidence(id.Provider, id.Version)
	if err != nil || digest(s) != r.Evidence {
		return nil
	}
	return s
}

// keepEvidence keeps s for the version of id. The packages of a version share
// it, so there is a lock for the version.
func (d *Dir) keepEvidence(ctx context.Context, id sources.PackageID, s *sources.Signed, via *disk.Scratch) error {
	if s == nil {
		return nil
	}
	path := evidencePath(id.Provider, id.Version)
	if d.state == nil {
		d.memory.Store(path, s)
		return nil
	}
	unlock, err := d.lockVersion(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	return evidence.Write(d.state, path, via.Dir, s)
}

// digest is what a record refers to evidence by; empty if there is none.
func digest(s *sources.Signed) string {
	if s == nil {
		return ""
	}
	sum := sha256.Sum256(s.Sums)
	return hex.EncodeToString(sum[:])
}
