package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
)

// readEvidence reads the bundle's evidence, and checks that it verifies the packages, and
// that neither this system nor the caller has a reason to refuse them.
func (in *importer) readEvidence(ctx context.Context) (err error) {
	if in.signed, err = in.bundle.Evidence(ctx); err != nil {
		return err
	}
	var refused []error
	for _, p := range in.bundle.Manifest.Packages {
		if !filepath.IsLocal(filepath.FromSlash(p.Path())) {
			err := errors.New("this system does not allow a file with this name")
			refused = append(refused, sources.InPackage(p.ID, err))
		}
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

// decide determines what to do with each package. No package in the mirror may lose its verification.
func (in *importer) decide(ctx context.Context) error {
	found, err := fsmirror.New(in.dir, fsmirror.Options{}).Packages(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := map[sources.Release][]fsmirror.Package{}
	for _, p := range found {
		r := p.ID.Release()
		there[r] = append(there[r], p)
	}
	var d decision
	for _, p := range in.bundle.Manifest.Packages {
		if r := p.ID.Release(); d.importer == nil || d.release != r {
			d = decision{importer: in, release: r, there: there[r]}
			if err := d.mergeEvidence(ctx, p); err != nil {
				return err
			}
		}
		a, err := d.fate(ctx, p)
		if err != nil {
			return err
		}
		in.arrivals = append(in.arrivals, a)
	}
	return nil
}

// A decision is about one release.
type decision struct {
	*importer
	release sources.Release
	there   []fsmirror.Package // in the mirror
	old     *sources.Signed    // the mirror's evidence; nil if there is none that can be read
}

// mergeEvidence merges the bundle's evidence with that of the mirror, as the mirror does when it stores the first package,
// p. It fails if the mirror has better evidence, or if the result doesn't cover a package that the mirror keeps.
func (d *decision) mergeEvidence(ctx context.Context, p Package) (err error) {
	if p.Unpacked() { // evidence is a claim then
		return nil
	}
	if d.old, _ = d.mirror.Evidence(d.release.Provider, d.release.Version); d.old == nil {
		return nil
	}
	merged, err := d.opts.Judge.Merge(ctx, d.release.Provider, d.old, d.signed[d.release])
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		err = sources.InPackage(p.ID, fmt.Errorf("the mirror has better evidence than the bundle: %w", err))
		return sources.WithHint(err,
			"find out where the bundle comes from; to accept its evidence, remove this version from the mirror first")
	}
	d.signed[d.release] = merged
	if bytes.Equal(merged.Sums, d.old.Sums) {
		return nil
	}
	for _, found := range d.there {
		_, inBundle := find(d.bundle.Manifest.Packages, found.ID)
		s, err := d.mirror.Find(ctx, found)
		if inBundle || err != nil || s.ZH == "" { // engines could not install a package that can't be read
			continue
		}
		if d.covers(ctx, d.old, found.ID, s.ZH) && !d.covers(ctx, merged, found.ID, s.ZH) {
			return d.conflict(p, fmt.Sprintf("has a package for %s that the bundle's evidence does not cover", found.ID.Platform))
		}
	}
	return ctx.Err()
}

// covers reports whether evidence, which may be nil, verifies an archive.
func (d *decision) covers(ctx context.Context, s *sources.Signed, id sources.PackageID, zh sources.Hash) bool {
	_, err := Package{ID: id, ZH: zh}.verified(ctx, d.opts.Judge, s)
	return s != nil && err == nil
}

// fate determines what happens to a package. A package that the mirror has unpacked must have the same contents, because
// engines prefer it. An unpacked one of the bundle must have those of any package in the mirror, which then stays.
func (d *decision) fate(ctx context.Context, p Package) (Arrival, error) {
	a := Arrival{How: Added}
	var err error
	if a.Verified, err = p.verified(ctx, d.opts.Judge, d.signed[d.release]); err != nil && !p.Unpacked() {
		return a, d.conflict(p, "has evidence that does not cover it")
	}
	for _, found := range d.there {
		if found.ID != p.ID || !p.Unpacked() && found.Location.Dir == "" {
			continue
		}
		s, err := d.mirror.Find(ctx, found)
		switch {
		case err != nil:
			return a, err
		case s.H1 != p.H1 && found.Location.Dir != "":
			return a, d.conflict(p, "has it unpacked, as "+string(s.H1))
		case s.H1 != p.H1:
			return a, d.conflict(p, "has it as "+string(s.H1))
		case p.Unpacked():
			a.How, a.Proof, a.Report = Known, s.Proof, s.Report
		}
	}
	if p.Unpacked() {
		return a, nil
	}
	s, err := d.mirror.Get(ctx, p.ID)
	switch {
	case ctx.Err() != nil:
		return a, ctx.Err()
	case errors.Is(err, sources.ErrNotFound):
	case err != nil:
		a.How = Replaced // a broken archive, which engines cannot install
	case s.ZH == p.ZH:
		a.How = Known
		if s.Report.Verdict > a.Report.Verdict {
			a.Proof, a.Report = s.Proof, s.Report
		}
	default:
		a.How = Replaced
		if d.covers(ctx, d.old, p.ID, s.ZH) || !d.covers(ctx, d.old, p.ID, p.ZH) {
			return a, d.conflict(p, "has "+string(s.ZH))
		}
	}
	return a, nil
}

// conflict returns the error for a package that is not what the mirror has.
func (d *decision) conflict(p Package, has string) error {
	err := fmt.Errorf("the bundle has %s, and the mirror %s", p.hashes()[0], has)
	return sources.WithHint(sources.InPackage(p.ID, err),
		"find out which package is right; larder mirror remove %s %s@%s/%s removes the one in the mirror",
		d.dir, p.ID.Provider, p.ID.Version, p.ID.Platform)
}
