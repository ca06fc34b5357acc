package installer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// ahead is how many packages are looked for while all slots are taken. It bounds the
// memory that thousands of packages take.
const ahead = 48

// FillOptions adjust [Installer.Fill]. The zero FillOptions are ready to use.
type FillOptions struct {
	Strict bool // a version that lacks a package for one of several platforms is an error
	DryRun bool // fetch nothing
}

// Filled is what came of a selected package.
type Filled struct {
	Selected
	Outcome Outcome // its zero value if the store does not have the package
	Err     error   // what went wrong for any of its wants; matches [sources.ErrNoPlatform] if there is no such package
}

// Fill sees to it that the store has the selected packages, and that they match
// what is locked. Packages fail one by one: the error joins what went wrong with
// each. That there is none for a platform counts only for a want that gets
// nothing at all, unless the options are strict.
func (in *Installer) Fill(ctx context.Context, selected []Selected, opts FillOptions) ([]Filled, error) {
	if !opts.DryRun {
		release, err := in.into.Use(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	filled := make([]Filled, len(selected))
	atOnce := make(chan struct{}, cap(in.opts.Slots)+ahead)
	for _, s := range selected[min(cap(atOnce), len(selected)):] {
		in.Report(acquire.Event{Step: acquire.Queued, Package: s.ID})
	}
	var wg sync.WaitGroup
	for i, s := range selected {
		filled[i].Selected = s
		atOnce <- struct{}{}
		wg.Go(func() {
			defer func() { <-atOnce }()
			filled[i].Outcome, filled[i].Err = in.fill(ctx, s, opts.DryRun)
			in.reportFilled(filled[i])
		})
	}
	wg.Wait()
	return filled, cmp.Or(ctx.Err(), errors.Join(failures(filled, opts.Strict)...))
}

func (in *Installer) reportFilled(f Filled) {
	e := acquire.Event{Step: acquire.Settled, Package: f.ID, Source: f.Outcome.Source}
	if f.Err != nil && !errors.Is(f.Err, sources.ErrNoPlatform) {
		e.Step, e.Err = acquire.Failed, f.Err
	}
	in.Report(e)
}

// failures are those errors that count.
func failures(filled []Filled, strict bool) []error {
	fed := map[*Want]bool{}
	for _, f := range filled {
		for _, w := range f.Wants {
			fed[w] = fed[w] || f.Err == nil
		}
	}
	var errs []error
	for _, f := range filled {
		starves := slices.ContainsFunc(f.Wants, func(w *Want) bool { return !fed[w] })
		if f.Err != nil && (strict || starves || !errors.Is(f.Err, sources.ErrNoPlatform)) {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// A demand is a request for a package that some wants have in common.
type demand struct {
	*job
	acquire.Request
	err error // why it cannot be met
}

// demands are the requests of wants for their package, those with hashes first.
func (in *Installer) demands(s Selected, dryRun bool, slot *acquire.Slot) []demand {
	var all []demand
	for _, w := range s.Wants {
		hashes := slices.Sorted(slices.Values(w.Locked.Hashes))
		i := slices.IndexFunc(all, func(d demand) bool { return slices.Equal(d.locked.Hashes, hashes) })
		if i < 0 {
			j := in.jobFor(s.ID, hashes)
			j.root.DryRun = dryRun
			i, all = len(all), append(all, demand{job: j, Request: j.request(s.ID, slot)})
		}
		all[i].req.From = append(all[i].req.From, w.From...)
	}
	slices.SortStableFunc(all, func(a, b demand) int { return cmp.Compare(min(len(b.Locked), 1), min(len(a.Locked), 1)) })
	return all
}

// fill sees to it that the store has one package. There can be only one of a version and
// platform: a demand whose hashes match another archive fails.
func (in *Installer) fill(ctx context.Context, s Selected, dryRun bool) (got Outcome, err error) {
	var slot acquire.Slot
	defer slot.Leave()
	demands := in.demands(s, dryRun, &slot)
	held, err := in.held(ctx, demands[0].Request)
	if err != nil {
		return got, err
	}
	unmet := slices.DeleteFunc(demands, func(d demand) bool {
		ok := d.met(held)
		if ok {
			got = Outcome{Package: held, How: FromStore}
			if len(d.Locked) > 0 {
				got.Package = d.Installer.Locked(d.Request, held)
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
	got.Package.Signed = nil // as for those of a root module
	return got, errorsOf(s.ID, failed)
}

// held is what the store has of a package, without H1 if that is nothing. It may have to
// be hashed, which takes a slot.
func (in *Installer) held(ctx context.Context, req acquire.Request) (sources.Stored, error) {
	if err := in.Enter(ctx, req); err != nil {
		return sources.Stored{}, err
	}
	defer req.Slot.Leave()
	held, err := in.into.Get(ctx, req.ID)
	if err != nil {
		held = sources.Stored{}
	}
	return held, nil
}

// met reports whether a stored package meets the demand whatever a source may offer: for
// a demand without hashes, if it has the evidence of its publisher.
func (d demand) met(s sources.Stored) bool {
	if len(d.Locked) > 0 {
		return d.Satisfies(d.Request, s)
	}
	return s.Signed != nil && s.Verdict >= sources.MirrorEvidence && d.Proven(s)
}

// meet sees to it that the store has a package that meets the demand, if it has
// got one that meets others, and others could not be met.
func (d demand) meet(ctx context.Context, got Outcome, failed []demand) (Outcome, error) {
	s := got.Package
	switch {
	case got.How == "":
	case len(d.Locked) == 0 || sources.MatchesAny(d.Locked, s.H1, s.ZipH1, s.ZH):
		return got, nil
	case s.H1 == "" || s.ZH == "" && sources.AnyOf(sources.ZH, d.Locked): // which may match yet
	default:
		return got, &sources.PackageError{ID: d.ID, Source: got.Source, Err: acquire.TheLockFile.Refuse(d.Locked, s.H1)}
	}
	if i := slices.IndexFunc(failed, func(d demand) bool { return !acquire.IsOther(d.err) }); i >= 0 {
		return Outcome{}, failed[i].err // the package could not be fetched for others either
	}
	res, err := d.Acquire(ctx, d.Request, sources.Stored{})
	if err != nil {
		return Outcome{}, err
	}
	return d.outcome(res), nil
}

// errorsOf joins why demands for a package are not met, each reason once, with
// all whom it concerns.
func errorsOf(id sources.PackageID, failed []demand) error {
	var errs []error
	for i, d := range failed {
		same := func(e demand) bool { return e.err.Error() == d.err.Error() }
		if slices.ContainsFunc(failed[:i], same) {
			continue
		}
		for _, other := range failed[i+1:] {
			if same(other) {
				d.req.From = append(d.req.From, other.req.From...)
			}
		}
		err := d.err
		if errors.Is(err, fetch.ErrOffline) {
			err = &MissingError{Requirement: d.req, Version: id.Version, Platform: id.Platform, Err: err}
		}
		errs = append(errs, d.requiredBy(err))
	}
	return errors.Join(errs...)
}

// The ways to get a package that is imported.
const (
	Imported  How = "imported"
	WasStored How = "already in the cache"
)

// Import stores a package that was taken out of another store: its files or its
// directory, with what is claimed of its archive. The contents must hash to h1, and to
// what is recorded of such a package, else the error is a [acquire.HashMismatchError] or
// a [acquire.RepublishedError].
//
// Without the archive it can't be verified that these contents came out of it. So the
// claims count only if the store has recorded the same of these contents, which it has
// if it has seen the archive.
func (in *Installer) Import(ctx context.Context, id sources.PackageID, h1 sources.Hash, from sources.Payload, claims sources.Provenance) (Outcome, error) {
	offer := acquire.Offer{
		Package:    sources.Package{ID: id, Hashes: []sources.Hash{h1}, Source: claims.Origin, Kind: sources.FromFilesystem},
		Payload:    &from,
		Provenance: sources.Provenance{Origin: claims.Origin, Imported: true},
	}
	known, err := in.into.Recall(id)
	if err == nil && known.H1 == h1 && known.ZH != "" && known.ZH == claims.ZH {
		offer.Provenance.ZH, offer.Provenance.Filename = known.ZH, known.Filename
		if known.Signed == nil {
			offer.Provenance.Signed, offer.Signed = claims.Signed, claims.Signed
		}
	}
	res, err := in.Take(ctx, acquire.Request{ID: id}, offer)
	if err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{Package: res.Package, How: WasStored}
	if res.Fetched {
		outcome.How = Imported
	}
	return outcome, nil
}
