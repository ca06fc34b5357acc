package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	evidenced := in.whole.Evidenced()
	for rest := in.whole.Packages; len(rest) > 0; {
		r, n := rest[0].ID.Release(), 1
		for n < len(rest) && rest[n].ID.Release() == r {
			n++
		}
		d := decision{importer: in, release: r, packages: rest[:n], there: there[r], given: in.signed[r]}
		rest = rest[n:]
		if evidenced[r] && d.given == nil {
			for _, p := range d.packages {
				in.missing[p.Part] = true
			}
			continue
		}
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
	if old, err := d.mirror.Evidence(d.release.Provider, d.release.Version); err == nil {
		d.old, d.had = old, evidence.Digest(old)
	}
	if err := d.chooseEvidence(ctx); err != nil {
		return err
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

// prove returns what the given evidence proves about an archive.
func (d *decision) prove(s *sources.Signed, id sources.PackageID, zh sources.Hash) (sources.Proof, bool) {
	if s == nil {
		return sources.Proof{Matched: true}, false
	}
	proof, err := d.opts.Judge.Prove(id.Provider, s, zh)
	return proof, err == nil
}

// worth returns the verdict on a proof.
func (d *decision) worth(p sources.Proof) sources.Verdict {
	return d.opts.Judge.Report(d.release.Provider, p).Verdict
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
		merged, err := d.opts.Judge.Merge(d.release.Provider, d.old, d.given)
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
		now, ok := d.prove(d.old, p.ID, p.ZH)
		vouched = vouched && ok
		given, _ := d.prove(d.given, p.ID, p.ZH)
		better = better || d.worth(given) > d.worth(now)
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
		proof, ok := d.prove(d.given, p.ID, s.ZH)
		if _, was := d.prove(d.old, p.ID, s.ZH); was && !ok {
			return d.conflict(d.packages[0], fmt.Sprintf("has evidence for %s that the bundle's does not cover", p.ID.Platform))
		}
		if ok {
			s.Signed, s.Proof = d.given, proof
			d.others = append(d.others, s)
		}
	}
	return nil
}

// fate determines what happens to a package.
func (d *decision) fate(ctx context.Context, p Package) (Arrival, error) {
	a := Arrival{Verified: Verified{Package: p}, How: Added}
	if proof, ok := d.prove(d.signed[d.release], p.ID, p.ZH); ok || d.signed[d.release] == nil {
		a.Proof, a.Report = proof, d.opts.Judge.Report(p.ID.Provider, proof)
	}
	if err := d.checkUnpacked(ctx, p); err != nil {
		return a, err
	}
	s, err := d.mirror.Get(ctx, p.ID)
	if err != nil {
		if !errors.Is(err, sources.ErrNotFound) {
			a.How = Replaced // a broken archive, which engines cannot install
		}
		return a, ctx.Err()
	}
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	if s.ZH == p.ZH {
		a.How = Known
		kept := d.signed[d.release]
		a.settled = s.Report.Verdict >= a.Report.Verdict && (kept == nil || s.Signed != nil && evidence.Digest(kept) == d.had)
		if s.Report.Verdict > a.Report.Verdict {
			a.Proof, a.Report = s.Proof, s.Report
		}
		return a, nil
	}
	a.How = Replaced
	_, good := d.prove(d.old, p.ID, p.ZH)
	if _, was := d.prove(d.old, p.ID, s.ZH); was || !good {
		return a, d.conflict(p, "has "+string(s.ZH))
	}
	return a, nil
}

// checkUnpacked returns an error if the mirror has an unpacked package with other
// contents. Engines would prefer the unpacked one.
func (d *decision) checkUnpacked(ctx context.Context, p Package) error {
	for _, found := range d.there {
		if found.ID != p.ID || found.Location.Dir == "" {
			continue
		}
		s, err := d.mirror.Find(ctx, found)
		if err != nil {
			return err
		}
		if s.H1 != p.H1 {
			return d.conflict(p, "has it unpacked, as "+string(s.H1))
		}
	}
	return nil
}

func (d *decision) conflict(p Package, has string) error {
	err := &ConflictError{Package: p, Has: has}
	return sources.WithHint(&sources.PackageError{ID: p.ID, Err: err}, "find out which is right; if it is the bundle's, remove the mirror's first")
}
