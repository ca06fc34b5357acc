package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/larder-cli/larder/sources"
)

// covers reports whether evidence, which may be nil, verifies an archive.
func (d *decision) covers(ctx context.Context, s *sources.Signed, id sources.PackageID, zh sources.Hash) bool {
	_, err := Package{ID: id, ZH: zh}.verified(ctx, d.opts.Judge, s)
	return s != nil && err == nil
}

// chooseEvidence keeps the mirror's evidence if it also verifies the packages in the
// bundle, and if the bundle's evidence is not better. Otherwise the bundle's evidence
// must verify the packages in the mirror. It refuses weaker evidence for different
// checksums in any case, because that contradicts the mirror's evidence.
func (d *decision) chooseEvidence(ctx context.Context) error {
	if d.old == nil {
		return nil
	}
	if d.given != nil {
		merged, err := d.opts.Judge.Merge(ctx, d.release.Provider, d.old, d.given)
		if err != nil {
			return d.downgrade(err)
		}
		if bytes.Equal(merged.Sums, d.old.Sums) {
			d.old = merged
		} else {
			d.given = merged
		}
	}
	vouched, better := true, false
	for _, p := range d.packages {
		now, err := p.verified(ctx, d.opts.Judge, d.old)
		given, _ := p.verified(ctx, d.opts.Judge, d.given)
		vouched = vouched && err == nil
		better = better || given.Report.Verdict > now.Report.Verdict
	}
	switch {
	case vouched && !better:
		d.signed[d.release] = d.old
		return nil
	case d.given == nil:
		return d.conflict(d.packages[0], "has evidence that does not cover it")
	}
	d.signed[d.release] = d.given
	return d.replaceEvidence(ctx)
}

// downgrade returns the error for evidence in the bundle that the mirror refuses.
func (d *decision) downgrade(why error) error {
	p := d.packages[0]
	err := &ConflictError{Package: p, Has: "has better evidence than the bundle", Err: why}
	return sources.WithHint(&sources.PackageError{ID: p.ID, Err: err}, "find out where the bundle comes from; to accept its evidence, remove this version from the mirror first")
}

func (d *decision) replaceEvidence(ctx context.Context) error {
	inBundle := map[sources.PackageID]bool{}
	for _, p := range d.packages {
		inBundle[p.ID] = true
	}
	for _, p := range d.there {
		if inBundle[p.ID] || p.Location.Archive == "" {
			continue
		}
		s, err := d.mirror.Get(ctx, p.ID)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue // engines could not install it
		}
		now, err := Package{ID: p.ID, ZH: s.ZH}.verified(ctx, d.opts.Judge, d.given)
		switch {
		case err == nil:
			s.Signed, s.Proof = d.given, now.Proof
			d.others = append(d.others, s)
		case d.covers(ctx, d.old, p.ID, s.ZH):
			return d.conflict(d.packages[0], fmt.Sprintf("has a package for %s that the bundle's evidence does not cover", p.ID.Platform))
		}
	}
	return nil
}

// readEvidence reads the bundle's evidence, and checks that it verifies the packages, and
// that the caller has no reason to refuse them.
func (in *importer) readEvidence(ctx context.Context) (err error) {
	if in.signed, err = in.bundle.Evidence(ctx); err != nil {
		return err
	}
	var refused []error
	for _, p := range in.bundle.Manifest.Packages {
		v, err := in.bundle.verified(ctx, p, in.opts.Judge, in.signed)
		if err != nil {
			return err
		}
		if in.opts.Check != nil {
			refused = append(refused, in.opts.Check(v))
		}
	}
	return errors.Join(refused...)
}
