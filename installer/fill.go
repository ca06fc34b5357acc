package installer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// ahead is how many packages are examined while all slots are taken. It limits the
// memory use with thousands of packages.
const ahead = 16

// FillOptions configure [Installer.Fill]. The zero FillOptions are ready to use.
type FillOptions struct {
	RequirePlatforms bool // fail if a version lacks a package for one of several platforms
	DryRun           bool // fetch nothing
}

// Filled is the result for a selected package.
type Filled struct {
	Selected
	Outcome Outcome // zero if the store does not have the package
	Err     error   // joins the errors of its wants; matches [sources.ErrNoPlatform] if there is no such package
}

// Fill ensures that the store has the selected packages, and that they match the
// locked hashes. Packages fail separately: the error joins the errors of all. If a
// package does not exist for a platform, its want fails only if it gets no
// package at all, unless FillOptions.RequirePlatforms is set. If a package is not signed as
// required, nothing is changed, and only packages with errors are returned.
func (in *Installer) Fill(ctx context.Context, selected []Selected, opts FillOptions) ([]Filled, error) {
	var refused []Filled
	err := in.rehearse(ctx, opts.DryRun, func(quiet *Installer) (err error) {
		refused, err = quiet.Fill(ctx, selected, FillOptions{RequirePlatforms: opts.RequirePlatforms, DryRun: true})
		return err
	})
	if err != nil {
		return refused, err
	}
	if !opts.DryRun {
		release, err := in.into.Use(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	filled := make([]Filled, len(selected))
	atOnce := cap(in.opts.Slots) + ahead
	for _, s := range selected[min(atOnce, len(selected)):] {
		in.acquirer.Report(acquire.Event{Step: acquire.Queued, Package: s.ID})
	}
	concurrently(atOnce, selected, func(i int, s Selected) error {
		outcome, err := in.fill(ctx, s, nil, opts.DryRun)
		if filled[i] = (Filled{s, outcome, err}); !acquire.IsOther(err) {
			in.reportFilled(filled[i])
		}
		return err
	})
	in.retryOthers(ctx, filled, opts.DryRun)
	err = cmp.Or(ctx.Err(), errors.Join(failures(filled, opts.RequirePlatforms)...))
	if opts.DryRun && refuses(err) {
		filled = slices.DeleteFunc(filled, func(f Filled) bool { return f.Err == nil })
	}
	return filled, err
}

// retryOthers tries packages again that match none of the locked hashes: these may
// belong to other platforms, whose packages are known now.
func (in *Installer) retryOthers(ctx context.Context, filled []Filled, dryRun bool) {
	for i, f := range filled {
		if !acquire.IsOther(f.Err) {
			continue
		}
		var others []sources.Hash
		for _, other := range filled {
			if p := other.Outcome.Package; other.ID.Release() == f.ID.Release() && other.ID != f.ID && p.Hashed() {
				others = append(others, p.Hashes()...)
			}
		}
		if len(others) > 0 {
			var outcome Outcome
			if outcome, filled[i].Err = in.fill(ctx, f.Selected, others, dryRun); f.Outcome.How != Fetched {
				filled[i].Outcome = outcome
			}
		}
		in.reportFilled(filled[i])
	}
}

func (in *Installer) reportFilled(f Filled) {
	e := acquire.Event{Step: acquire.Settled, Package: f.ID, Source: f.Outcome.Source}
	if f.Err != nil && !errors.Is(f.Err, sources.ErrNoPlatform) {
		e.Step, e.Err = acquire.Failed, f.Err
	}
	in.acquirer.Report(e)
}

// failures returns the errors that Fill reports.
func failures(filled []Filled, all bool) []error {
	fed := map[*Want]bool{}
	for _, f := range filled {
		for _, w := range f.Wants {
			fed[w] = fed[w] || f.Err == nil
		}
	}
	var errs []error
	for _, f := range filled {
		starves := slices.ContainsFunc(f.Wants, func(w *Want) bool { return !fed[w] })
		if f.Err != nil && (all || starves || !errors.Is(f.Err, sources.ErrNoPlatform)) {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// A demand is a request for a package that several wants share.
type demand struct {
	job *job
	req acquire.Request
	err error // why it cannot be met
}

// demands returns the wants' requests for their package, those with hashes first.
// others are hashes of packages for other platforms.
func (in *Installer) demands(s Selected, others []sources.Hash, dryRun bool, slot *acquire.Slot) []demand {
	var all []demand
	for _, w := range s.Wants {
		hashes := slices.Sorted(slices.Values(w.Locked.Hashes))
		i := slices.IndexFunc(all, func(d demand) bool { return slices.Equal(d.job.locked.Hashes, hashes) })
		if i < 0 {
			j := in.jobFor(s.ID, hashes)
			j.root.DryRun, j.offline = dryRun, s.offline
			req := j.request(s.ID, slot)
			req.OtherPlatforms, req.Others = true, others
			i, all = len(all), append(all, demand{job: j, req: req})
		}
		from := &all[i].job.req.From
		*from = append(*from, w.From...)
	}
	slices.SortStableFunc(all, func(a, b demand) int {
		return cmp.Compare(min(len(b.req.Locked), 1), min(len(a.req.Locked), 1))
	})
	return all
}

// fill ensures that the store has one package. There can be only one for a version
// and platform: a demand whose hashes match another archive fails.
func (in *Installer) fill(
	ctx context.Context, s Selected, others []sources.Hash, dryRun bool,
) (got Outcome, err error) {
	var slot acquire.Slot
	defer slot.Leave()
	demands := in.demands(s, others, dryRun, &slot)
	if err := in.acquirer.Enter(ctx, demands[0].req); err != nil { // the package may have to be hashed
		return got, err
	}
	var requests []acquire.Request
	for _, d := range demands {
		requests = append(requests, d.req)
	}
	held := in.acquirer.Read(ctx, in.stored(ctx, s.ID), requests...)
	slot.Leave() // while sources are queried
	unmet := slices.DeleteFunc(demands, func(d demand) bool {
		ok := d.met(held)
		if ok {
			got = Outcome{Package: held, How: FromStore, Offline: s.offline}
			if d.job.acquirer.Satisfies(d.req, held) {
				got.Package = in.acquirer.AcceptLocked(d.req, held)
			}
		}
		return ok
	})
	var failed []demand
	for _, d := range unmet {
		outcome, err := d.meet(ctx, got, failed)
		switch {
		case err != nil:
			d.err = err
			failed = append(failed, d)
		case got.How != Fetched:
			got = outcome
		}
	}
	got.Package.Trim()
	return got, errorsOf(s.ID, failed)
}

// met reports whether a stored package meets the demand regardless of the offers of
// sources. A demand without hashes of the package is met if the store has its
// publisher's evidence, or if its version was chosen because it is on this machine.
func (d demand) met(s sources.Stored) bool {
	if d.job.acquirer.Satisfies(d.req, s) {
		return true
	}
	if len(d.req.Locked) == 0 && d.job.offline && d.job.fault(s) == "" {
		return true
	}
	proven := s.Signed != nil && s.Proof.Signed() && d.job.acquirer.Proven(s)
	stated := sources.Package{ID: s.ID, Signed: s.Signed, Hashes: s.Hashes()}
	return proven && (len(d.req.Locked) == 0 || s.Differs == "" && d.job.acquirer.Unlocked(d.req, stated))
}

// meet ensures that the store has a package that meets the demand. got is the package
// that meets other demands, if there is one. failed are demands that could not be
// met.
func (d demand) meet(ctx context.Context, got Outcome, failed []demand) (Outcome, error) {
	s := got.Package
	switch {
	case got.How == "":
	case len(d.req.Locked) == 0 || sources.MatchesAny(d.req.Locked, s.Hashes()...):
		return got, nil
	case s.H1 == "" || s.ZH == "" && sources.AnyOf(sources.ZH, d.req.Locked): // the archive may still match
	default:
		if offer, err := d.job.acquirer.Ask(ctx, d.req); err == nil && d.job.acquirer.Unlocked(d.req, offer.Package) {
			return got, nil
		}
		err := d.job.acquirer.Refuse(acquire.TheLockFile, d.req.ID, d.req.Locked, s.H1)
		return got, &sources.PackageError{ID: d.req.ID, Source: got.Source, Err: err}
	}
	if i := slices.IndexFunc(failed, func(d demand) bool { return !acquire.IsOther(d.err) }); i >= 0 {
		return Outcome{}, failed[i].err // the package could not be fetched for others either
	}
	res, err := d.job.acquirer.Acquire(ctx, d.req, sources.Stored{})
	if err != nil {
		return Outcome{}, err
	}
	return d.job.outcome(res), nil
}

// errorsOf joins the reasons why demands for a package are not met. Each reason is
// there once, with every place that requires the package.
func errorsOf(id sources.PackageID, failed []demand) error {
	var errs []error
	for i, d := range failed {
		same := func(e demand) bool { return e.err.Error() == d.err.Error() }
		if slices.ContainsFunc(failed[:i], same) {
			continue
		}
		for _, other := range failed[i+1:] {
			if same(other) {
				d.job.req.From = append(d.job.req.From, other.job.req.From...)
			}
		}
		err := d.err
		if errors.Is(err, sources.ErrOffline) {
			err = &MissingError{Requirement: d.job.req, Version: id.Version, Platform: id.Platform, Err: err}
		}
		errs = append(errs, d.job.requiredBy(err))
	}
	return errors.Join(errs...)
}
