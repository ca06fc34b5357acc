package bundle

import (
	"context"
	"errors"
	"io/fs"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// decide determines what to do with each package, and which evidence to keep. No
// package in the mirror may lose its verification.
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
	for rest := in.bundle.Manifest.Packages; len(rest) > 0; {
		r, n := rest[0].ID.Release(), 1
		for n < len(rest) && rest[n].ID.Release() == r {
			n++
		}
		d := decision{importer: in, release: r, packages: rest[:n], there: there[r], given: in.signed[r]}
		rest = rest[n:]
		if err := d.decide(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A decision is about one release.
type decision struct {
	*importer
	release  sources.Release
	packages []Package          // in the bundle
	there    []fsmirror.Package // in the mirror
	given    *sources.Signed    // the bundle's evidence; nil if it has none
	old      *sources.Signed    // the mirror's evidence, perhaps with the bundle's keys; nil if there is none that can be read
	had      string             // digest of the mirror's evidence
}

func (d *decision) decide(ctx context.Context) error {
	if !d.packages[0].Unpacked() {
		if old, err := d.mirror.Evidence(d.release.Provider, d.release.Version); err == nil {
			d.old, d.had = old, evidence.Digest(old)
		}
		if err := d.chooseEvidence(ctx); err != nil {
			return err
		}
	}
	for _, p := range d.packages {
		a, err := d.fate(ctx, p)
		if err != nil {
			return err
		}
		d.arrivals = append(d.arrivals, a)
	}
	return nil
}

// fate determines what happens to a package. A package that the mirror has unpacked must have the same contents, because
// engines prefer it. An unpacked one of the bundle must have those of any package in the mirror, which then stays.
func (d *decision) fate(ctx context.Context, p Package) (Arrival, error) {
	a := Arrival{Verified: Verified{Package: p}, How: Added}
	if v, err := p.verified(ctx, d.opts.Judge, d.signed[d.release]); err == nil {
		a.Verified = v
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
			a.How, a.settled, a.Proof, a.Report = Known, true, s.Proof, s.Report
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
		kept := d.signed[d.release]
		a.settled = s.Report.Verdict >= a.Report.Verdict && (kept == nil || s.Signed != nil && evidence.Digest(kept) == d.had)
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

func (d *decision) conflict(p Package, has string) error {
	err := &ConflictError{Package: p, Has: has}
	return sources.WithHint(&sources.PackageError{ID: p.ID, Err: err},
		"find out which package is right; larder mirror remove %s %s@%s/%s removes the one in the mirror",
		d.dir, p.ID.Provider, p.ID.Version, p.ID.Platform)
}
