package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
)

// checkBase checks that the mirror has the base of the bundle.
func (in *importer) checkBase(ctx context.Context) error {
	var missing []error
	for _, p := range in.bundle.Manifest.Base {
		s, err := in.mirror.Get(ctx, p.ID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, sources.ErrNotFound):
			err = &sources.PackageError{ID: p.ID, Err: fmt.Errorf("%s requires this package, but %s does not have it", in.bundle.name, in.dir)}
		case err == nil && s.ZH != p.ZH:
			err = &sources.PackageError{ID: p.ID, Err: fmt.Errorf("%s requires %s, but %s has %s", in.bundle.name, p.ZH, in.dir, s.ZH)}
		}
		if err != nil {
			hint := "import the earlier bundles first, or request one created with --since and the output of larder bundle manifest %s"
			missing = append(missing, sources.WithHint(err, hint, in.dir))
		}
	}
	return errors.Join(missing...)
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
	merged := map[sources.Release]bool{}
	for _, p := range in.bundle.Manifest.Packages {
		r := p.ID.Release()
		if !merged[r] && !p.Unpacked() { // evidence for an unpacked package is a claim
			if err := in.mergeEvidence(ctx, p.ID, there[r]); err != nil {
				return err
			}
			merged[r] = true
		}
		a, err := in.fate(ctx, p, there[r])
		if err != nil {
			return err
		}
		in.result.Packages = append(in.result.Packages, a)
	}
	return nil
}

// mergeEvidence merges the bundle's evidence with that of the mirror, as the mirror does when it stores the first package
// of a release. It fails if the mirror has better evidence, or if the result doesn't cover a package that is there.
func (in *importer) mergeEvidence(ctx context.Context, id sources.PackageID, there []fsmirror.Package) error {
	old, _ := in.mirror.Evidence(id.Provider, id.Version)
	if old == nil { // there is none that can be read
		return nil
	}
	merged, err := in.opts.Judge.Merge(ctx, id.Provider, old, in.signed[id.Release()])
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		err = sources.InPackage(id, fmt.Errorf("the mirror has better evidence than the bundle: %w", err))
		return sources.WithHint(err,
			"find out where the bundle comes from; to accept its evidence, remove this version from the mirror first")
	}
	in.signed[id.Release()] = merged
	if bytes.Equal(merged.Sums, old.Sums) {
		return nil
	}
	for _, found := range there {
		_, inBundle := find(in.bundle.Manifest.Packages, found.ID)
		s, err := in.mirror.Find(ctx, found)
		if inBundle || err != nil || s.ZH == "" { // engines could not install a package that can't be read
			continue
		}
		if _, err := in.opts.Judge.Prove(ctx, id.Provider, merged, s.ZH); err != nil {
			err := fmt.Errorf("%s has a package for %s that the bundle's evidence does not cover", in.dir, found.ID.Platform)
			return sources.WithHint(sources.InPackage(id, err), "request a bundle with that package")
		}
	}
	return ctx.Err()
}

// fate determines what happens to a package. An archive that is broken or has changed is replaced. What the mirror has in
// the other form must have the same contents: engines prefer directories, and an unpacked package is not stored beside
// an archive.
func (in *importer) fate(ctx context.Context, p Package, there []fsmirror.Package) (a Arrival, err error) {
	a.How = Added
	if a.Verified, err = p.verified(ctx, in.opts.Judge, in.signed[p.ID.Release()]); err != nil {
		return a, in.conflict(p, "has evidence that does not cover it")
	}
	for _, found := range there {
		if found.ID != p.ID {
			continue
		}
		s, err := in.mirror.Find(ctx, found)
		packed := found.Location.Archive != ""
		switch same := packed && !p.Unpacked(); {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case same && (err != nil || s.Differs == p.ZH):
			a.How = Replaced
		case err != nil:
			return a, err
		case same && s.ZH != p.ZH:
			return a, in.conflict(p, "has "+string(s.ZH))
		case s.H1 != p.H1 && packed:
			return a, in.conflict(p, "has it as "+string(s.H1))
		case s.H1 != p.H1:
			return a, in.conflict(p, "has it unpacked, as "+string(s.H1))
		case same || p.Unpacked():
			a.How = Known
			if p.Unpacked() || s.Report.Verdict > a.Report.Verdict {
				a.Proof, a.Report = s.Proof, s.Report
			}
		}
	}
	return a, nil
}

// conflict returns the error for a package that is not what the mirror has.
func (in *importer) conflict(p Package, has string) error {
	err := fmt.Errorf("the bundle has %s, and the mirror %s", p.hashes()[0], has)
	return sources.WithHint(sources.InPackage(p.ID, err),
		"find out which package is right; larder mirror remove %s %s@%s/%s removes the one in the mirror",
		in.dir, p.ID.Provider, p.ID.Version, p.ID.Platform)
}
