package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// checkBase checks that the mirror has the base of the bundle.
func (in *importer) checkBase(ctx context.Context) error {
	var missing []error
	hint := sync.OnceValue(func() string { return in.hintBase(ctx) })
	for _, p := range in.bundle.Manifest.Base {
		s, err := in.mirror.Get(ctx, p.ID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, sources.ErrNotFound):
			err = fmt.Errorf("%s requires this package, but %s does not have it", in.bundle.name, in.dir)
		case err == nil && s.ZH != p.ZH:
			err = fmt.Errorf("%s requires %s, but %s has %s", in.bundle.name, p.ZH, in.dir, s.ZH)
		}
		if err != nil {
			missing = append(missing, sources.WithHint(sources.InPackage(p.ID, err), "%s", hint()))
		}
	}
	return errors.Join(missing...)
}

// hintBase says how to get a bundle whose base the mirror has.
func (in *importer) hintBase(ctx context.Context) string {
	const earlier = "import the earlier bundles first"
	if found, _ := fsmirror.New(in.dir, fsmirror.Options{}).Packages(ctx); len(found) == 0 {
		return earlier
	}
	return earlier + ", or request one created with --since and the output of larder bundle manifest " + in.dir
}

// decide determines what to do with each package. No package in the mirror may lose its verification.
func (in *importer) decide(ctx context.Context) error {
	found, err := fsmirror.New(in.dir, fsmirror.Options{}).Packages(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := map[sources.PackageID][]fsmirror.Package{}
	for _, p := range found {
		there[p.ID] = append(there[p.ID], p)
	}
	for _, p := range in.bundle.Manifest.Packages {
		a, err := in.fate(ctx, p, there[p.ID])
		if err != nil {
			return err
		}
		in.result.Packages = append(in.result.Packages, a)
	}
	return nil
}

// verified returns what the evidence of the bundle proves about a package, merged with that of the mirror, as the
// mirror merges it when it stores the package: there, better evidence stays.
func (in *importer) verified(ctx context.Context, p Package) (s sources.Stored, err error) {
	r := p.ID.Release()
	signed := in.bundle.Manifest.Signed(r)
	var downgrade error
	if old, _ := in.mirror.Evidence(r.Provider, r.Version); old != nil {
		signed, downgrade = in.opts.Judge.Merge(ctx, r.Provider, old, signed)
	}
	s, err = p.verified(ctx, in.opts.Judge, signed)
	if err == nil || ctx.Err() != nil {
		return s, cmp.Or(ctx.Err(), err)
	}
	return s, sources.WithHint(sources.InPackage(p.ID, &store.ReplacedError{Err: err, Downgrade: downgrade}),
		"find out where the bundle comes from; to accept its evidence, remove this version from the mirror first")
}

// fate determines what happens to a package. One that is damaged is replaced. What the mirror has unpacked must have
// the same contents, because engines prefer directories.
func (in *importer) fate(ctx context.Context, p Package, there []fsmirror.Package) (a Arrival, err error) {
	known, err := in.verified(ctx, p)
	if err != nil {
		return a, err
	}
	a = Arrival{p, known.Proof, known.Report, Added}
	for _, found := range there {
		same := !found.Unpacked()
		s, err := in.mirror.Find(ctx, found)
		if err == nil && !same {
			s, err = in.mirror.Read(ctx, s)
		}
		switch {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case same && (err != nil || s.Differs != "" && s.Differs == p.ZH):
			a.How = Replaced
		case err != nil:
			return a, err
		case !s.Same(sources.Stored{H1: p.H1, ZH: p.ZH}) || same && s.ZH != p.ZH:
			has := string(s.ZH)
			if found.Unpacked() {
				has = "it unpacked, as " + string(s.H1)
			}
			err := fmt.Errorf("the bundle has %s, and the mirror has %s", p.ZH, has)
			return a, sources.WithHint(sources.InPackage(p.ID, err),
				"find out which package is right; larder mirror remove %s %s@%s/%s removes the one in the mirror",
				in.dir, p.ID.Provider, p.ID.Version, p.ID.Platform)
		case same:
			a.How = Known
			if s.Report.Verdict > a.Report.Verdict {
				a.Proof = s.Proof.Approved(p.approvals)
				a.Report = in.opts.Judge.Report(p.ID.Provider, a.Proof)
			}
		}
	}
	return a, nil
}
