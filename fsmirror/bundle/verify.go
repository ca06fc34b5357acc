package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// VerifyOptions configure [Verify].
type VerifyOptions struct {
	Judge  sources.Judge        // by default one without settings
	Report func(done, of int64) // called with the progress in bytes; may be nil
}

// A Verification is the result of [Verify].
type Verification struct {
	Packages []Verified // valid packages, sorted
	Bytes    int64      // of the packages
	Payload  []Payload  // valid payloads, sorted
	Findings []*Finding
}

// A Verified package is a valid package in a bundle.
type Verified struct {
	Package
	Proof  sources.Proof
	Report sources.Report // what the proof is worth
}

// Verify reads the bundles, or parts of bundles, in files. The error is the reason
// why it could not read them. Problems in a bundle are findings, not errors.
func Verify(ctx context.Context, files []string, opts VerifyOptions) (Verification, error) {
	var v Verification
	var open []*Bundle
	for _, file := range files {
		b, err := Open(file)
		if err := v.note(err); err != nil {
			return v, err
		}
		if b != nil {
			defer b.Close()
			open = append(open, b)
		}
	}
	p := &progress{report: opts.Report}
	for _, b := range open {
		for _, pkg := range b.Manifest.here() {
			p.of += pkg.Size
		}
		for _, payload := range b.Manifest.payloadHere() {
			p.of += payload.Size()
		}
	}
	for _, b := range open {
		if err := v.verify(ctx, b, judgeOr(opts.Judge), p); err != nil {
			return v, err
		}
	}
	v.Findings = append(v.Findings, missingParts(open)...)
	return v, nil
}

// note adds the findings in an error to v and returns the other errors.
func (v *Verification) note(err error) error {
	var rest []error
	for _, err := range sources.Errors(err) {
		if f, ok := errors.AsType[*Finding](err); ok {
			v.Findings = append(v.Findings, f)
			continue
		}
		rest = append(rest, err)
	}
	return errors.Join(rest...)
}

func (v *Verification) verify(ctx context.Context, b *Bundle, by sources.Judge, p *progress) error {
	signed, err := b.Evidence()
	if err := v.note(err); err != nil {
		return err
	}
	judge := b.judge(by, signed)
	for _, e := range b.members {
		if e.pkg == nil {
			continue
		}
		known, err := judge(*e.pkg)
		if err == nil {
			err = b.verifyArchive(ctx, e, p)
		} else {
			p.add(e.size)
		}
		if err := v.note(err); err != nil {
			return err
		}
		if err == nil {
			v.Packages = append(v.Packages, known)
			v.Bytes += e.size
		}
	}
	for _, payload := range b.Manifest.payloadHere() {
		err := b.verifyPayload(ctx, payload, p)
		if err := v.note(err); err != nil {
			return err
		}
		if err == nil {
			v.Payload = append(v.Payload, payload)
		}
	}
	return nil
}

// judge returns a function that verifies packages by the evidence signed.
func (b *Bundle) judge(by sources.Judge, signed map[sources.Release]*sources.Signed) func(Package) (Verified, error) {
	evidenced := b.Manifest.Evidenced()
	return func(p Package) (Verified, error) {
		known := Verified{Package: p, Proof: sources.Proof{Matched: true}} // the manifest's checksum
		known.Report = by.Report(p.ID.Provider, known.Proof)
		s := signed[p.ID.Release()]
		switch {
		case !evidenced[p.ID.Release()]:
			return known, nil
		case s == nil:
			return known, b.finding(BrokenEvidence, &p.ID, errors.New("its evidence is broken"))
		}
		proof, err := by.Prove(p.ID.Provider, s, p.ZH)
		if err != nil {
			return known, b.finding(BrokenEvidence, &p.ID, err)
		}
		known.Proof, known.Report = proof, by.Report(p.ID.Provider, proof)
		return known, nil
	}
}

// verifyArchive verifies an archive in the bundle.
func (b *Bundle) verifyArchive(ctx context.Context, e member, p *progress) error {
	sum, _, err := disk.Hash(ctx, io.TeeReader(b.contents(e), p), e.size)
	if err != nil {
		return err
	}
	err = e.pkg.verify(ctx, sources.ZipHash(sum), b.contents(e))
	if err != nil && ctx.Err() == nil {
		err = b.finding(ChangedArchive, &e.pkg.ID, err)
	}
	return err
}

// missingParts returns findings for the parts that were not given.
func missingParts(open []*Bundle) []*Finding {
	given := map[string][]*Bundle{}
	for _, b := range open {
		id := b.Manifest.ID()
		given[id] = append(given[id], b)
	}
	var all []*Finding
	for _, parts := range given {
		for part := 1; part <= parts[0].Manifest.Parts; part++ {
			if !slices.ContainsFunc(parts, func(b *Bundle) bool { return b.Manifest.Part == part }) {
				all = append(all, &Finding{File: parts[0].name, Kind: MissingPart, Part: part, Err: fmt.Errorf("part %d of %d is missing", part, parts[0].Manifest.Parts)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Finding) int { return cmp.Compare(a.File, b.File) })
	return all
}
