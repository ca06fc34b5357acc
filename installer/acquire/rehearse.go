package acquire

import (
	"cmp"
	"context"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/trust"
)

// Readings hold the hashes of local packages for dry runs. Installers that share
// Readings read each package once. The zero Readings are ready to use.
type Readings struct {
	memo sources.Memo[sources.Location, reading]
}

type reading struct {
	contents sources.Contents
	zh       sources.Hash // of an archive
}

func (r *Readings) of(ctx context.Context, at sources.Location) (reading, error) {
	return r.memo.Get(ctx, at, func() (reading, error) {
		if at.Dir != "" {
			contents, err := archive.Hash(ctx, at.Dir)
			return reading{contents: contents}, err
		}
		contents, zh, err := archive.Read(ctx, at.Archive)
		return reading{contents, zh}, err
	})
}

// rehearse is Take for a dry run. It fails where the real one would, if that can be
// determined: it reads and checks local packages, and downloads nothing.
func (a *Acquirer) rehearse(ctx context.Context, req Request, offer Offer) (Result, error) {
	res := Result{Offer: offer, Offered: offer.Verified.Proof}
	known, err := a.recall(req.ID)
	if err == nil {
		err = a.checkRelease(req, offer, known)
	}
	if err != nil {
		return res, fail(req.ID, offer.Source, err)
	}
	if s, err := a.into.Get(ctx, req.ID); err == nil && a.Suffices(ctx, req, offer, s) {
		if better, ok := a.better(offer, s); ok {
			s.Proof, s.Report = better.Proof, better.Report
		}
		res.Package = s
		return res, nil
	}
	res.Planned = true
	if err := a.judgeOffer(req, offer); err != nil {
		return res, fail(req.ID, offer.Source, err)
	}
	if offer.Location.URL != "" {
		signed := offer.Verified
		if offer.Kind != sources.FromRegistry && offer.Signed != nil {
			signed, _ = a.verifyStated(offer) // Ask has returned the error
		}
		proof := proofOf(req, offer, signed)
		res.Package = sources.Stored{ID: req.ID, Proof: proof, Report: a.report(req.ID, proof)}
		return res, nil
	}
	res.Package, err = a.rehearseLocal(ctx, req, offer, known)
	if err != nil {
		err = fail(req.ID, offer.Source, err)
	}
	return res, err
}

// Appraise describes the package that a source on this machine has, as Take would
// store it. It stores nothing, and reports no warnings. It reads no package that
// nothing can verify. A key that is not among the provider's trusted keys is an error.
func (a *Acquirer) Appraise(ctx context.Context, req Request) (sources.Stored, error) {
	offer, err := a.ask(ctx, req)
	if err != nil {
		return sources.Stored{}, err
	}
	known, err := a.recall(req.ID)
	if err != nil || known.Imported {
		known = sources.Stored{}
	}
	if offer.Signed == nil && !sources.AnyUsable(offer.Hashes) && !known.Proof.Any() {
		return sources.Stored{ID: req.ID}, nil
	}
	res, err := a.rehearse(ctx, req, offer)
	err = cmp.Or(err, res.Package.Report.Refused)
	if known.H1 == res.Package.H1 && known.Report.Verdict > res.Package.Report.Verdict {
		res.Package.Proof, res.Package.Report = known.Proof, known.Report
	}
	return res.Package, err
}

// rehearseLocal checks a local package as Take would.
func (a *Acquirer) rehearseLocal(ctx context.Context, req Request, offer Offer, known sources.Stored) (sources.Stored, error) {
	var signed trust.Verified
	read, err := a.opts.Readings.of(ctx, offer.Location)
	got := fetched{Provenance: sources.Provenance{ZH: read.zh, Signed: offer.Signed}}
	if err == nil {
		signed, err = a.judgeArchive(req, offer, got)
	}
	if err == nil {
		_, err = archive.ExecutableIn(read.contents, req.ID.Provider.Type)
	}
	if err != nil {
		return sources.Stored{}, err
	}
	proof, err := a.judgeContents(req, offer, signed, got, read.contents, known)
	return sources.Stored{ID: req.ID, Proof: proof, Report: a.report(req.ID, proof), H1: read.contents.H1, ZH: read.zh}, err
}
