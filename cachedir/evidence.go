package cachedir

import (
	"errors"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// Evidence returns the evidence for a version, which is kept once one of its packages
// has been stored. The error matches [sources.ErrNotFound] if there is none.
func (d *Dir) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	return d.evidence.Read(sources.Release{Provider: p, Version: v})
}

// newEvidence returns the evidence in the state.
func (d *Dir) newEvidence() *store.Evidence {
	return &store.Evidence{
		Judge: d.opts.Judge, Warn: d.warn, Dir: d.state, References: d.references,
		Via: d.stateScratch, Lock: d.lockVersion,
		Denied: func(err error) error {
			if d.denies(err) {
				return d.explainOwner(err)
			}
			return nil
		},
	}
}

// references returns the references to the evidence for a version from all records.
func (d *Dir) references(of sources.Release) []string {
	places, err := d.ledger.All(of.Provider)
	known, knownErr := d.known.All(of.Provider)
	d.warn(errors.Join(err, knownErr))
	return append(store.References(places, of), store.References(known, of)...)
}
