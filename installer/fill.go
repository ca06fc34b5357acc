package installer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// FillOptions adjust [Installer.Fill]. The zero FillOptions are ready to use.
type FillOptions struct {
	Strict bool         // a version that lacks a package for one of several platforms is an error
	DryRun bool         // fetch nothing
	Done   func(Filled) // told of each package when it is done with, from any goroutine; may be nil
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
	var wg sync.WaitGroup
	for i, s := range selected {
		filled[i].Selected = s
		wg.Go(func() {
			filled[i].Outcome, filled[i].Err = in.fill(ctx, s, opts.DryRun)
			in.tellFilled(filled[i], opts)
		})
	}
	wg.Wait()
	return filled, cmp.Or(ctx.Err(), errors.Join(failures(filled, opts.Strict)...))
}

func (in *Installer) tellFilled(f Filled, opts FillOptions) {
	if f.Err != nil && !errors.Is(f.Err, sources.ErrNoPlatform) {
		in.tell.event(Event{Step: Failed, Package: f.ID, Err: f.Err})
	}
	if opts.Done != nil {
		opts.Done(f)
	}
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
	from   []sources.Origin
	err    error // why it cannot be met
}

// demands are what wants ask of their package, those with hashes first.
func demands(wants []*Want) []demand {
	var all []demand
	for _, w := range wants {
		hashes := slices.Sorted(slices.Values(w.Locked.Hashes))
		i := slices.IndexFunc(all, func(d demand) bool { return slices.Equal(d.hashes, hashes) })
		if i < 0 {
			i, all = len(all), append(all, demand{hashes: hashes})
		}
		all[i].from = append(all[i].from, w.From...)
	}
	slices.SortStableFunc(all, func(a, b demand) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

func rank(d demand) int {
	if usable(d.hashes) {
		return 0
	}
	return 1
}

// fill sees to it that the store has one package. There can be only one of a
// version and platform: whose hashes are of another has to do without.
func (in *Installer) fill(ctx context.Context, s Selected, dryRun bool) (Outcome, error) {
	var got Outcome
	var failed []demand
	for _, d := range demands(s.Wants) {
		d.job = &job{
			Installer: in, version: s.ID.Version, lockedBy: theLockFile, root: Root{DryRun: dryRun},
			req:    sources.Requirement{Provider: s.ID.Provider, From: d.from},
			locked: lockfile.Entry{Provider: s.ID.Provider, Version: s.ID.Version, Hashes: d.hashes},
		}
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
	return got, unmet(s.ID, failed)
}

// meet sees to it that the store has a package that meets the demand, if it has
// one that meets others already, and others could not be met.
func (d demand) meet(ctx context.Context, id sources.PackageID, got Outcome, failed []demand) (Outcome, error) {
	s, locked := got.Package, d.lockedHashes()
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

func isArchive(h sources.Hash) bool { return h.Scheme() == "zh" }

// obtain brings the package, unless others have tried in vain to reach it.
func (d demand) obtain(ctx context.Context, id sources.PackageID, failed []demand) (outcome Outcome, err error) {
	unreachable := slices.IndexFunc(failed, func(d demand) bool { return !otherPackage(d.err) })
	if unreachable >= 0 {
		if s, ok := d.inStore(ctx, id); ok {
			return Outcome{Package: s, How: FromStore}, nil
		}
		return outcome, failed[unreachable].err
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

// otherPackage reports whether a package is there, but is not the one it should
// be.
func otherPackage(err error) bool {
	var mismatch *HashMismatchError
	var republished *RepublishedError
	return errors.As(err, &mismatch) || errors.As(err, &republished)
}

// unmet joins what went wrong, each thing once, with all whom it concerns.
func unmet(id sources.PackageID, failed []demand) error {
	var errs []error
	for i, d := range failed {
		same := func(e demand) bool { return e.err.Error() == d.err.Error() }
		if slices.ContainsFunc(failed[:i], same) {
			continue
		}
		for _, other := range failed[i+1:] {
			if same(other) {
				d.req.From = append(d.req.From, other.from...)
			}
		}
		err := d.err
		if errors.Is(err, fetch.ErrOffline) {
			err = &MissingError{d.req, id.Version, id.Platform, err}
		}
		errs = append(errs, d.requiredBy(err))
	}
	return errors.Join(errs...)
}
