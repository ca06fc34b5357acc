package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

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
	chosen, errs := make([][]choice, len(groups)), make([]error, len(groups))
	var wg sync.WaitGroup
	for i, group := range groups {
		wg.Go(func() {
			if chosen[i], errs[i] = in.chooseAll(ctx, group, opts); errs[i] != nil {
				in.acquirer.Report(acquire.Event{Step: acquire.Failed, Package: sources.PackageID{Provider: group[0].Provider}, Err: errs[i]})
			}
		})
	}
	wg.Wait()
	selected := in.packages(slices.Concat(chosen...))
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
		key := fmt.Sprint(w.Provider, w.Constraints, w.Recorded, w.Locked.Version, slices.Sorted(slices.Values(w.Locked.Hashes)))
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

// A choice is a selected version.
type choice struct {
	want    *Want
	version sources.Version
	offline bool // it was chosen because it is on this machine
}

// chooseAll selects the versions of one provider.
func (in *Installer) chooseAll(ctx context.Context, wants []*Want, opts SelectOptions) ([]choice, error) {
	offered, err := in.offered(ctx, wants)
	var errs []error
	if err != nil && !errors.Is(err, sources.ErrOffline) {
		errs = append(errs, err)
	}
	var chosen []choice
	for _, w := range wants {
		var found []choice
		var wantErr error
		switch {
		case !w.open() || err == nil:
			found, wantErr = in.choose(w, offered, opts)
		case errors.Is(err, sources.ErrOffline):
			found, wantErr = in.chooseHere(ctx, w, offered, opts, err)
		}
		chosen, errs = append(chosen, found...), append(errs, wantErr)
	}
	return chosen, errors.Join(errs...)
}

// offered returns the source's versions, if a version is to be chosen for one of
// wants. With an error that matches [sources.ErrOffline], they are those of the sources
// on this machine.
func (in *Installer) offered(ctx context.Context, wants []*Want) (sources.Listing, error) {
	all := job{Installer: in, req: sources.Requirement{Provider: wants[0].Provider}}
	open := false
	for _, w := range wants {
		if w.open() {
			all.req.From = append(all.req.From, w.From...)
			open = true
		}
	}
	if !open {
		return sources.Listing{}, nil
	}
	offered, err := all.versions(ctx)
	if err != nil && !errors.Is(err, sources.ErrOffline) {
		err = all.requiredBy(err)
	}
	return offered, err
}

// chooseHere selects versions on this machine for one want.
func (in *Installer) chooseHere(ctx context.Context, w *Want, listing sources.Listing, opts SelectOptions, offline error) ([]choice, error) {
	j := job{Installer: in, req: w.Requirement}
	n := max(opts.Newest, 1)
	if opts.All {
		n = 0
	}
	found, err := j.versionsHere(ctx, listing, n)
	if err == nil && len(found) == 0 {
		err = j.missing(offline)
	}
	var chosen []choice
	for _, f := range found {
		chosen = append(chosen, choice{w, f.version, true})
	}
	return chosen, err
}

// choose selects the versions for one want.
func (in *Installer) choose(w *Want, offered sources.Listing, opts SelectOptions) (chosen []choice, err error) {
	j := job{Installer: in, req: w.Requirement, locked: w.Locked}
	if !w.open() {
		if v := w.Locked.Version; w.AllowsLocked(v) {
			return []choice{{w, v, false}}, nil
		}
		return nil, j.lockedRefused()
	}
	allowed := slices.DeleteFunc(newestFirst(offered.Versions), func(v sources.Version) bool { return !w.Constraints.Allow(v) })
	if len(allowed) == 0 {
		return nil, j.requiredBy(j.noneAllowed(offered))
	}
	if !opts.All {
		allowed = allowed[:min(len(allowed), max(opts.Newest, 1))]
	}
	for _, v := range allowed {
		chosen = append(chosen, choice{w, v, false})
	}
	return chosen, nil
}

// Modules returns the names of the root modules that require the package, sorted and without
// duplicates.
func (s Selected) Modules() []string {
	var all []string
	for _, w := range s.Wants {
		all = append(all, w.Modules...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// packages returns the packages of the selected versions, sorted and without
// duplicates.
func (in *Installer) packages(chosen []choice) []Selected {
	wants, offline := map[sources.PackageID][]*Want{}, map[sources.PackageID]bool{}
	for _, c := range chosen {
		for _, platform := range in.opts.Platforms {
			id := sources.PackageID{Provider: c.want.Provider, Version: c.version, Platform: platform}
			wants[id] = append(wants[id], c.want)
			offline[id] = offline[id] || c.offline
		}
	}
	var all []Selected
	for id, by := range wants {
		all = append(all, Selected{id, by, offline[id]})
	}
	slices.SortFunc(all, func(a, b Selected) int { return a.ID.Compare(b.ID) })
	return all
}
