package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
)

// Export writes the packages that root modules select to a bundle, or to standard output if the file
// is -. It first finds every required package. Without partial, it fails if one
// is missing.
func Export(ctx context.Context, s *site.Site, file string, roots []string, partial bool) error {
	if err := job.TakeRoots(s, roots); err != nil {
		return err
	}
	t, err := job.ReadLocked(ctx, s)
	if err == nil && file != "-" {
		_, err = s.ParentOf(file)
	}
	if err != nil {
		return err
	}
	k, err := job.OpenCache(ctx, s, false)
	if err != nil {
		return err
	}
	return export(ctx, k, t, file, partial)
}

// export writes the packages that the tree requires to the file.
func export(ctx context.Context, k *job.TargetCache, t *job.Tree, file string, partial bool) error {
	if k.Cache != nil {
		release, err := k.Cache.Use(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	open := unlocked(t)
	packages, missing, err := collect(ctx, k, t)
	if err != nil {
		return err
	}
	if err := tellMissing(k, open, missing, partial); err != nil {
		return err
	}
	m, err := bundle.Of(ctx, packages)
	if err != nil {
		return err
	}
	if file == "-" {
		return bundle.Write(ctx, k.Out.Stdout, m)
	}
	created, err := bundle.WriteFile(ctx, site.Absolute(k.Dir, file), m, nil)
	if err != nil {
		return err
	}
	k.Out.Private(file, created.Private)
	report.Grid(k.Out, report.CheckedOf(packages))
	left := len(open) + len(missing)
	k.Out.Summary(report.BundleSum{
		File: site.Absolute(k.Dir, file), Packages: len(packages), Missing: left, Size: created.Size,
		Unchanged: created.Unchanged,
	})
	did := "Wrote " + file
	if created.Unchanged {
		did = file + " is unchanged"
	}
	text := fmt.Sprintf("%s: %s, %s", did, ui.Count(len(packages), "package"), ui.Size(created.Size))
	if left > 0 {
		text += fmt.Sprintf("; %d missing", left)
	}
	k.Out.Say("%s", text)
	return nil
}

// maxPlaces is the largest number of root modules shown for one provider.
const maxPlaces = 10

// unlocked returns why providers of root modules without a lock file are not exported.
func unlocked(t *job.Tree) (all []error) {
	open := map[sources.Provider][]string{}
	for _, r := range t.Open {
		open[r.Provider] = append(open[r.Provider], r.Module)
	}
	for _, p := range slices.SortedFunc(maps.Keys(open), sources.Provider.Compare) {
		err := errors.New("no version is locked in " + ui.Some(open[p], maxPlaces))
		all = append(all, &sources.ProviderError{Provider: p, Err: err})
	}
	return all
}

// collect returns the packages in the cache that lock files select, and the reasons why
// others are missing.
func collect(ctx context.Context, k *job.TargetCache, t *job.Tree) (all []sources.Stored, missing []error, err error) {
	wanted := wanted(t)
	for _, id := range slices.SortedFunc(maps.Keys(wanted), sources.PackageID.Compare) {
		s, err := sources.Stored{}, error(sources.ErrNotFound)
		if k.Cache != nil {
			s, err = k.Cache.Get(ctx, id)
		}
		if errors.Is(err, sources.ErrNotFound) {
			err = &sources.PackageError{ID: id, Err: errors.New("not in the plugin cache")}
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			missing = append(missing, err)
			continue
		}
		unmet := 0
		for _, l := range wanted[id] {
			if !allows(l, s) {
				err := fmt.Errorf("the package in the plugin cache differs from the one locked in %s", l.Module)
				missing = append(missing, &sources.PackageError{ID: id, Err: err})
				unmet++
			}
		}
		if unmet < len(wanted[id]) {
			all = append(all, s)
		}
	}
	return all, missing, nil
}

// wanted returns the packages that lock files select, each with the root modules that
// select it.
func wanted(t *job.Tree) map[sources.PackageID][]job.LockedProvider {
	wanted := map[sources.PackageID][]job.LockedProvider{}
	for _, l := range t.Locked {
		for _, platform := range t.Platforms {
			id := sources.PackageID{Provider: l.Provider, Version: l.Version, Platform: platform}
			wanted[id] = append(wanted[id], l)
		}
	}
	return wanted
}

// allows reports whether a package matches a hash in the lock file, or the lock file has no
// hashes.
func allows(l job.LockedProvider, s sources.Stored) bool {
	return !sources.AnyUsable(l.Hashes) || sources.MatchesAny(l.Hashes, s.H1, s.ZipH1, s.ZH)
}

// tellMissing prints the providers without a version and the packages that cannot be exported. Without --partial it
// returns an error.
func tellMissing(k *job.TargetCache, open, missing []error, partial bool) error {
	all := slices.Concat(open, missing)
	if len(all) == 0 || partial {
		k.Out.WarnAll(all)
		return nil
	}
	err := sources.WithHint(errors.New("nothing was exported"), "--partial exports the packages that are in the cache")
	if len(missing) > 0 {
		err = sources.WithHint(err, "%s fetches what is missing", k.Again("prefetch", k.Flags.Platforms...))
	}
	if len(open) > 0 {
		err = sources.WithHint(err, "%s installs the providers, and writes the lock files", k.Again("install"))
	}
	return errors.Join(append(all, err)...)
}
