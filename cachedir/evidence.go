package cachedir

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
)

// Evidence returns the evidence for a version, which is kept once one of its packages
// has been stored. The error matches [sources.ErrNotFound] if there is none.
func (d *Dir) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	return d.evidence.Read(sources.Release{Provider: p, Version: v})
}

// newEvidence returns the evidence in the state.
func (d *Dir) newEvidence() *store.Evidence {
	return &store.Evidence{Judge: d.opts.Judge, Warn: d.warn, Places: []store.Place{{Dir: d.state}}, References: d.references}
}

// evidencePath returns the path of the evidence in the state.
func evidencePath(r sources.Release) string {
	return strings.TrimPrefix(evidence.Path(r.Provider, r.Version), ".larder/")
}

// keepEvidence stores s as evidence for the version of the package. The packages of a
// version share their evidence, so it takes the version's lock.
func (t *tx) keepEvidence(ctx context.Context, r *record, s *sources.Signed) error {
	if s == nil {
		return nil
	}
	unlock, err := t.d.lockVersion(ctx, t.ID)
	if err != nil {
		return err
	}
	defer unlock()
	err = t.d.evidence.Keep(ctx, t.ID, &r.Facts, s, t.work)
	if t.d.denies(err) {
		r.Evidence = ""
		t.d.warn(fmt.Errorf("%s: %w", t.ID, t.d.explainOwner(err)))
		return nil
	}
	return err
}

// references returns the references to the evidence for a version from all records.
func (d *Dir) references(of sources.Release) []string {
	places, err := d.ledger.All(of.Provider)
	known, knownErr := d.known.All(of.Provider)
	d.warn(errors.Join(err, knownErr))
	return append(store.References(places, of), store.References(known, of)...)
}
