package acquire

import (
	"cmp"
	"context"
	"slices"

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

// begin begins the transaction of a request. That of a dry run locks nothing.
func (a *Acquirer) begin(ctx context.Context, req Request, offer Offer) (held sources.Held, _ sources.Tx, err error) {
	if e := req.early; e.of(offer) {
		<-e.begun
		return e.held, e, e.err
	} else if e.Close(); !req.DryRun { // it may have the lock
		return a.into.Begin(ctx, req.ID, req.Purpose)
	}
	if held.Known, err = a.into.Recall(req.ID); UnlessNotFound(err) != nil {
		return held, nil, err
	}
	if held.Package, err = a.into.Get(ctx, req.ID); err != nil {
		held.Package = sources.Stored{} // it is fetched
	}
	return held, &rehearsal{a, offer, held.Package}, nil
}

// A rehearsal is the transaction of a dry run: it reads packages on this machine, and
// stores nothing.
type rehearsal struct {
	*Acquirer
	offer  Offer
	result sources.Stored // the package held, or the one that has been read
}

// Stage returns no stage, because nothing is downloaded.
func (r *rehearsal) Stage(sources.Observer) (sources.Stage, error) { return nil, nil }

// Unpack reads the offered package. It fails where a store would.
func (r *rehearsal) Unpack(ctx context.Context, _ sources.Payload) (sources.Contents, error) {
	if to, ok := r.into.(Taker); ok {
		if err := to.Takes(r.offer.Location); err != nil {
			return sources.Contents{}, sources.InPackage(r.offer.ID, err)
		}
	}
	read, err := r.opts.Readings.of(ctx, r.offer.Location)
	if err == nil {
		_, err = archive.ExecutableIn(read.contents, r.offer.ID.Provider.Type)
	}
	r.result = sources.Stored{ID: r.offer.ID, H1: read.contents.H1, ZH: read.zh}
	return read.contents, err
}

// Commit returns the package as it would be recorded.
func (r *rehearsal) Commit(_ context.Context, by sources.Provenance) (sources.Stored, error) {
	r.result.Proof, r.result.Report = by.Proof, r.report(r.offer.ID, by.Proof)
	return r.result, nil
}

func (r *rehearsal) Close() {}

// foreseen describes a package that would be downloaded or read. It fails if the package would be refused then, even
// with the archive that is signed.
func (a *Acquirer) foreseen(
	ctx context.Context, req Request, offer Offer, known sources.Stored,
) (sources.Stored, error) {
	signed, hashes := offer.Verified, offer.Hashes
	if offer.Kind != sources.FromRegistry && offer.Signed != nil {
		if !sources.AnyOf(sources.ZH, hashes) && offer.Location.Dir == "" {
			sums, _ := trust.ParseSums(offer.Signed.Sums) // verifyCarried returns the error
			hashes = []sources.Hash{sums.Archives(req.ID.Provider, req.ID.Version)[req.ID.Platform]}
		}
		signed, _ = a.verifyCarried(ctx, offer, hashes...) // Ask has returned the error
	}
	proof := proofOf(req, offer, signed).Approved(offer.mayBeApproved())
	s := sources.Stored{ID: req.ID, Proof: proof, Report: a.report(req.ID, proof)}
	best, other := s.Report, sources.AnyOf(sources.ZH, offer.Hashes) && !slices.Contains(offer.Hashes, known.ZH)
	if !other { // see bestReport
		approvals := append(best.Approvals, known.Report.Approvals...)
		if known.Report.Verdict > best.Verdict {
			best = known.Report
		}
		best.Approvals = approvals
	}
	return s, a.opts.Judge.Check(req.ID, best)
}

// Appraise describes the package that a source on this machine has, as Take would
// store it. It stores nothing, and reports no warnings. It reads no package that
// nothing can verify. It fails if the provider has trusted keys, but another key signed it.
func (a *Acquirer) Appraise(ctx context.Context, req Request) (sources.Stored, error) {
	req.DryRun = true
	offer, err := a.ask(ctx, req)
	if err != nil {
		return sources.Stored{}, err
	}
	known, err := a.recall(req.ID)
	if err != nil {
		known = sources.Stored{}
	}
	if offer.Signed == nil && !sources.AnyUsable(offer.Hashes) && !known.Proof.Any() {
		return sources.Stored{ID: req.ID}, nil
	}
	res, err := a.Take(ctx, req, offer)
	err = cmp.Or(err, res.Package.Report.Refused)
	if known.Same(res.Package) && known.Report.Verdict > res.Package.Report.Verdict {
		res.Package.Proof, res.Package.Report = known.Proof, known.Report
	}
	return res.Package, err
}
