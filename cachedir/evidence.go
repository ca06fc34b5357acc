package cachedir

import (
	"context"
	"fmt"
	"path"
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

// newEvidence returns the evidence in the state, and in those of other users whose records
// this user accepts.
func (d *Dir) newEvidence() *store.Evidence {
	places := []store.Place{{Dir: d.state}}
	for _, at := range d.believed() {
		places = append(places, store.Place{Dir: d.common, Prefix: at})
	}
	return &store.Evidence{Judge: d.opts.Judge, Warn: d.warn, Places: places, References: d.references}
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
	err = t.d.evidence.Keep(ctx, t.ID, &r.Facts, s, t.notes)
	if t.d.denies(err) {
		r.Evidence = ""
		t.d.warn(fmt.Errorf("%s: %w", t.ID, t.d.explainOwner(err)))
		return nil
	}
	return err
}

// references returns the references to the evidence for a version from all records.
func (d *Dir) references(of sources.Release) []string {
	if d.state == nil {
		return nil
	}
	any := sources.PackageID{Provider: of.Provider, Version: of.Version}
	var all []string
	for _, dir := range []string{path.Dir(recordPath(any)), path.Dir(knownPath(any))} {
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
