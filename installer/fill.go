package installer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/installer/lockfile"
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
	if keeper, ok := in.to.(Keeper); ok && !opts.DryRun {
		release, err := keeper.Use(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	filled := make([]Filled, len(selected))
	var group errgroup.Group
	limit := cap(in.opts.Slots) + ahead
	group.SetLimit(limit)
	for _, s := range selected[min(limit, len(selected)):] {
		in.tell.event(Event{Step: Queued, Package: s.ID})
	}
	for i, s := range selected {
		filled[i].Selected = s
		group.Go(func() error {
			filled[i].Outcome, filled[i].Err = in.fill(ctx, s, opts.DryRun)
			in.tellFilled(filled[i])
			return nil
		})
	}
	group.Wait() //nolint:errcheck // each package has an error of its own
	return filled, cmp.Or(ctx.Err(), errors.Join(failures(filled, opts.Strict)...))
}

func (in *Installer) tellFilled(f Filled) {
	e := Event{Step: Settled, Package: f.ID, Source: f.Outcome.Source}
	if f.Err != nil && !errors.Is(f.Err, sources.ErrNoPlatform) {
		e.Step, e.Err = Failed, f.Err
	}
	in.tell.event(e)
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

// A demand is for a package with certain hashes.
type demand struct {
	*job
	hashes []sources.Hash // none if any will do
	err    error          // why it cannot be met
}

// demands are what wants ask of their package, those with hashes first.
func (in *Installer) demands(s Selected, dryRun bool) []demand {
	var all []demand
	for _, w := range s.Wants {
		hashes := slices.Sorted(slices.Values(w.Locked.Hashes))
		i := slices.IndexFunc(all, func(d demand) bool { return slices.Equal(d.hashes, hashes) })
		if i < 0 {
			i, all = len(all), append(all, demand{hashes: hashes, job: &job{
				Installer: in, version: s.ID.Version, lockedBy: theLockFile, root: Root{DryRun: dryRun},
				req:    sources.Requirement{Provider: s.ID.Provider},
				locked: lockfile.Entry{Provider: s.ID.Provider, Version: s.ID.Version, Hashes: hashes},
			}})
		}
		all[i].req.From = append(all[i].req.From, w.From...)
	}
	slices.SortStableFunc(all, func(a, b demand) int { return cmp.Compare(min(len(b.hashes), 1), min(len(a.hashes), 1)) })
	return all
}

// fill sees to it that the store has one package. There can be only one of a
// version and platform: whose hashes are of another has to do without.
func (in *Installer) fill(ctx context.Context, s Selected, dryRun bool) (got Outcome, err error) {
	unmet := slices.DeleteFunc(in.demands(s, dryRun), func(d demand) bool {
		stored, ok := d.there(ctx, s.ID)
		if ok {
			got = Outcome{Package: stored, How: FromStore}
		}
		return ok
	})
	var failed []demand
	for _, d := range unmet {
		outcome, err := d.meet(ctx, s.ID, got, failed)
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

// there is the package in the store, if it meets the demand whatever a source may
// say: for a demand without hashes, if it has the evidence of its publisher.
func (d demand) there(ctx context.Context, id sources.PackageID) (sources.Stored, bool) {
	if len(d.lockedHashes()) > 0 {
		return d.inStore(ctx, id)
	}
	s, err := d.stored(ctx, id, func() (sources.Stored, error) { return d.to.Get(ctx, id) })
	return s, err == nil && s.Signed != nil && s.Verdict >= sources.MirrorEvidence && d.proven(s)
}

// meet sees to it that the store has a package that meets the demand, if it has
// got one that meets others, and others could not be met.
func (d demand) meet(ctx context.Context, id sources.PackageID, got Outcome, failed []demand) (Outcome, error) {
	s, locked := got.Package, d.lockedHashes()
	isArchive := func(h sources.Hash) bool { return h.Scheme() == "zh" }
	switch {
	case got.How == "":
		return d.obtain(ctx, id, failed)
	case len(locked) == 0 || matchesAny(locked, s.H1, s.ZipH1, s.ZH):
		return got, nil
	case s.H1 == "" || s.ZH == "" && slices.ContainsFunc(locked, isArchive): // which may match yet
		return d.obtain(ctx, id, failed)
	}
	err := theLockFile.broken(&HashMismatchError{By: theLockFile.by, Want: locked, Got: []sources.Hash{s.H1}})
	return got, d.fail(id, got.Source, err)
}

// obtain brings the package, unless others have tried in vain to reach it.
func (d demand) obtain(ctx context.Context, id sources.PackageID, failed []demand) (outcome Outcome, err error) {
	if i := slices.IndexFunc(failed, func(d demand) bool { return !IsOther(d.err) }); i >= 0 {
		return outcome, failed[i].err
	}
	obtain, err := d.find(ctx, id)
	if err != nil {
		return outcome, err
	}
	err = d.inSlot(ctx, id, func() error {
		outcome, err = obtain()
		return err
	})
	return outcome, err
}

// IsOther reports whether an error says that a source has a package, but not the one
// that it should be.
func IsOther(err error) bool {
	var mismatch *HashMismatchError
	var republished *RepublishedError
	return errors.As(err, &mismatch) || errors.As(err, &republished)
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
