package cachedir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/larder-cli/larder/sources"
)

// Evidence is what vouches for a version, kept from when one of its packages
// was stored. The error matches [sources.ErrNotFound] if nothing is kept.
func (d *Dir) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	return sources.ReadEvidence(d.evidencePath(p, v))
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
func (d *Dir) keepEvidence(ctx context.Context, id sources.PackageID, s *sources.Signed) error {
	if s == nil {
		return nil
	}
	unlock, err := d.lockAt(ctx, id, id.Provider.String()+"/"+id.Version.String()+"/evidence")
	if err != nil {
		return err
	}
	defer unlock()
	return sources.WriteEvidence(d.evidencePath(id.Provider, id.Version), s)
}

// digest is by what a record refers to evidence; nothing if there is none.
func digest(s *sources.Signed) string {
	if s == nil {
		return ""
	}
	sum := sha256.Sum256(s.Sums)
	return hex.EncodeToString(sum[:])
}
