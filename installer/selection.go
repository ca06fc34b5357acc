package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A Want is a requirement for one provider, with or without a root module to install
// it for.
type Want struct {
	sources.Requirement
	Locked lockfile.Entry // the version to select, whose hashes the package must match; zero if a version is to be chosen

	Modules []string // names of the root modules that require it, for messages
}

// open reports whether a version is to be chosen.
func (w *Want) open() bool { return w.Locked.Version == (sources.Version{}) }

// A Selected package is one that wants require.
type Selected struct {
	ID    sources.PackageID
	Wants []*Want // at least one; equal wants are merged into one that names all their places

	offline bool // the version was chosen because it is on this machine
}

// SelectOptions determine how many versions are selected if none is locked. The zero
// SelectOptions select only the newest.
type SelectOptions struct {
	Newest int  // number of newest versions to select; 0 means 1
	All    bool // select all matching versions
}

// Select selects the packages that wants require for each of the platforms. It
// returns each package once, sorted by provider, version and platform. If a version
// is to be chosen for a provider, it queries the source once. Wants fail separately:
// the error joins the errors of all.
func (in *Installer) Select(ctx context.Context, wants []Want, opts SelectOptions) ([]Selected, error) {
	groups := byProvider(wants)
	chosen := make([][]Selected, len(groups))
	errs := concurrently(manyAtOnce, groups, func(i int, group []*Want) (err error) {
		chosen[i], err = in.selectFor(ctx, group, opts)
		return err
	})
	selected := slices.Concat(chosen...)
	for _, s := range selected {
		in.acquirer.Report(acquire.Event{Step: acquire.Chosen, Package: s.ID})
	}
	return selected, cmp.Or(ctx.Err(), errors.Join(errs...))
}

// byProvider groups wants, sorted by provider. It merges equal wants into one that
// names all their places.
func byProvider(wants []Want) [][]*Want {
	groups := map[sources.Provider][]*Want{}
	same := map[string]*Want{}
	for _, w := range wants {
		hashes := slices.Sorted(slices.Values(w.Locked.Hashes))
		key := fmt.Sprint(w.Provider, w.Constraints, w.Recorded, w.Locked.Version, hashes)
		if first := same[key]; first != nil {
			first.From = append(first.From, w.From...)
			first.Modules = append(first.Modules, w.Modules...)
			continue
		}
		w.From, w.Modules = slices.Clone(w.From), slices.Clone(w.Modules)
		same[key] = &w
		groups[w.Provider] = append(groups[w.Provider], &w)
	}
	var all [][]*Want
	for _, group := range groups {
		all = append(all, group)
	}
	slices.SortFunc(all, func(a, b []*Want) int { return a[0].Provider.Compare(b[0].Provider) })
	return all
}

// selectFor selects the packages of one provider.
func (in *Installer) selectFor(ctx context.Context, wants []*Want, opts SelectOptions) ([]Selected, error) {
	of := sources.PackageID{Provider: wants[0].Provider}
	if err := in.jobOf(wants).checkProvider(); err != nil {
		return nil, in.failed(of, err, modulesOf(wants)...)
	}
	open := slices.DeleteFunc(slices.Clone(wants), func(w *Want) bool { return !w.open() })
	offered, err := in.offered(ctx, open)
	unasked := errors.Is(err, sources.ErrOffline)
	var errs []error
	if err != nil && !unasked {
		errs = append(errs, in.failed(of, err, modulesOf(open)...))
	}
	selected := map[sources.PackageID]Selected{}
	for _, w := range wants {
		if w.open() && err != nil && !unasked {
			continue
		}
		versions, wantErr := in.choose(ctx, w, opts, offered, err)
		errs = append(errs, in.failed(of, wantErr, w.Modules...))
		for _, v := range versions {
			for _, platform := range in.opts.Platforms {
				id := sources.PackageID{Provider: w.Provider, Version: v, Platform: platform}
				s := selected[id]
				selected[id] = Selected{id, append(s.Wants, w), s.offline || w.open() && unasked}
			}
		}
	}
	byID := func(a, b Selected) int { return a.ID.Compare(b.ID) }
	return slices.SortedFunc(maps.Values(selected), byID), errors.Join(errs...)
}

// jobOf returns a job for what all wants of one provider have in common. It has all their places.
func (in *Installer) jobOf(wants []*Want) *job {
	all := &job{Installer: in, req: sources.Requirement{Provider: wants[0].Provider}}
	for _, w := range wants {
		all.req.From = append(all.req.From, w.From...)
	}
	return all
}

// offered returns the source's versions, if there are wants for which a version is to be chosen. With an error that
// matches [sources.ErrOffline], they are those of the sources on this machine.
func (in *Installer) offered(ctx context.Context, open []*Want) (sources.Listing, error) {
	if len(open) == 0 {
		return sources.Listing{}, nil
	}
	all := in.jobOf(open)
	offered, err := all.versions(ctx)
	if err != nil && !errors.Is(err, sources.ErrOffline) {
		err = all.requiredBy(err)
	}
	return offered, err
}

func modulesOf(wants []*Want) (modules []string) {
	for _, w := range wants {
		modules = append(modules, w.Modules...)
	}
	return modules
}

// choose selects the versions for one want, of those offered. If no version is locked,
// and the error matches [sources.ErrOffline], it selects versions on this machine.
func (in *Installer) choose(
	ctx context.Context, w *Want, opts SelectOptions, offered sources.Listing, offline error,
) (chosen []sources.Version, err error) {
	j := job{Installer: in, req: w.Requirement, locked: w.Locked}
	n := max(opts.Newest, 1)
	if opts.All {
		n = math.MaxInt
	}
	switch {
	case !w.open() && w.AllowsLocked(w.Locked.Version):
		if err := j.checkLockedVersion(ctx); err != nil {
			return nil, err
		}
		return []sources.Version{w.Locked.Version}, nil
	case !w.open():
		return nil, j.lockConflict(LockConflictError{})
	case offline == nil:
		if chosen, err = j.newest(ctx, offered, n); err != nil {
			return nil, j.requiredBy(err)
		}
		j.reportPassed()
		return chosen, nil
	}
	if chosen, err = j.versionsHere(ctx, offered, n); err == nil && len(chosen) == 0 {
		err = j.missing(offline)
	}
	return chosen, err
}

// Modules returns the names of the root modules that require the package, sorted and without
// duplicates.
func (s Selected) Modules() []string {
	all := modulesOf(s.Wants)
	slices.Sort(all)
	return slices.Compact(all)
}
