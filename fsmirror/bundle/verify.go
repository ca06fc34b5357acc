package bundle

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

// A Verification is the result of [Verify].
type Verification struct {
	Packages []sources.Stored // valid packages, sorted
	Bytes    int64            // of the packages
	Payload  []Payload        // valid payloads, sorted
	Removed  []Package        // packages that an import removes
	Set      *trust.Set       // that is signed; nil if there is none, or if it is broken
	Findings []*store.Finding
}

// Verify reads the bundle in a file. The error is the reason why it could not read it.
// Problems in the bundle are findings, not errors. Report, which may be nil, is called with
// the progress in bytes.
func Verify(
	ctx context.Context, file string, by sources.Judge, report func(done, of int64),
) (v Verification, err error) {
	b, err := Open(file)
	if err != nil {
		err = v.note(err)
		return v, err
	}
	defer b.Close()
	p := &progress{of: b.Manifest.Size() + b.Manifest.PayloadSize(), report: report}
	v.Removed = b.Manifest.Removed
	if err := v.note(b.ReadEvidence(ctx)); err != nil {
		return v, err
	}
	v.Set = b.set
	for _, pkg := range b.Manifest.Packages {
		known, err := b.verified(ctx, pkg, by)
		if err == nil {
			err = b.verifyPackage(ctx, p, pkg)
		}
		if err == nil {
			v.Packages = append(v.Packages, known)
			v.Bytes += pkg.Size
		}
		if err := v.note(err); err != nil {
			return v, err
		}
	}
	for _, payload := range b.Manifest.Payload {
		err := b.verifyFiles(ctx, p, payload.dir(), payload.Files)
		if err == nil {
			v.Payload = append(v.Payload, payload)
		}
		if err := v.note(err); err != nil {
			return v, err
		}
	}
	return v, nil
}

// note adds the findings in an error to v and returns the other errors.
func (v *Verification) note(err error) error {
	var rest []error
	for _, err := range sources.Errors(err) {
		if f, ok := errors.AsType[*store.Finding](err); ok {
			v.Findings = append(v.Findings, f)
			continue
		}
		rest = append(rest, err)
	}
	return errors.Join(rest...)
}

// verified returns what signed checksums prove about a package. Without any, which signed is nil
// for, only the manifest's checksum matched.
func (p Package) verified(ctx context.Context, by sources.Judge, signed *sources.Signed) (s sources.Stored, err error) {
	known := sources.Proof{Matched: true}
	if signed != nil {
		known, err = by.Prove(ctx, p.ID.Provider, signed, p.ZH)
	}
	known = known.Approved(p.approvals)
	return p.stored(known, by.Report(p.ID.Provider, known)), err
}

// stored describes the package as one of a store.
func (p Package) stored(known sources.Proof, worth sources.Report) sources.Stored {
	return sources.Stored{ID: p.ID, ZH: p.ZH, H1: p.H1, Proof: known, Report: worth}
}

// verified verifies a package by the evidence in the bundle. The error is a [store.Finding].
func (b *Bundle) verified(ctx context.Context, p Package, by sources.Judge) (sources.Stored, error) {
	s := b.Manifest.Signed(p.ID.Release())
	v, err := p.verified(ctx, by, s)
	if s == nil && b.Manifest.Evidenced(p.ID.Release()) {
		err = errors.New("its evidence is broken")
	}
	if err != nil {
		err = b.finding(store.BadEvidence, &p.ID, err)
	}
	return v, err
}

// verifyPackage verifies the contents of a package. Each error is a [store.Finding].
func (b *Bundle) verifyPackage(ctx context.Context, done *progress, p Package) error {
	e := b.archive(p)
	if err := b.copy(ctx, done, e); err != nil {
		return err
	}
	c, err := archive.Sum(ctx, b.contents(e), e.Size)
	switch {
	case err == nil:
		return b.checkContents(p, c)
	case ctx.Err() != nil:
		return err
	}
	return b.finding(store.Changed, &p.ID, err)
}

// verifyFiles verifies the files in a directory. Each error is a [store.Finding].
func (b *Bundle) verifyFiles(ctx context.Context, done *progress, dir string, files []File) error {
	var all []error
	for _, e := range b.files(dir, files) {
		all = append(all, b.copy(ctx, done, e))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return errors.Join(all...)
}

// checkContents returns a [store.Finding] if the contents of a package differ from the manifest, or are no provider.
func (b *Bundle) checkContents(p Package, c sources.Contents) error {
	if c.ZipH1 == c.H1 {
		c.ZipH1 = ""
	}
	if c.H1 != p.H1 || c.ZipH1 != p.ZipH1 {
		err := fmt.Errorf("its contents are %s %s, but should be %s %s", c.H1, c.ZipH1, p.H1, p.ZipH1)
		return b.finding(store.Changed, &p.ID, err)
	}
	if _, err := archive.ExecutableIn(c, p.ID.Provider.Type); err != nil {
		return b.finding(store.Broken, &p.ID, err)
	}
	return nil
}
