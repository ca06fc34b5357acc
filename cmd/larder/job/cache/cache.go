// Package cache contains the jobs of larder cache: what a plugin cache contains, and what is removed, verified and
// imported. It leaves on disk what cachedir does.
package cache

import (
	"context"
	"fmt"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
)

// A Path is the path of the plugin cache.
type Path struct {
	report.Typed `type:"cache"`
	Path         string `json:"path"`
}

// ShowPath shows the path of the cache in full, for scripts.
func ShowPath(ctx context.Context, s *site.Site) error {
	k, err := job.FindCache(ctx, s)
	if err == nil {
		s.Output.ShowText(k.Path+"\n", Path{Path: k.Path})
	}
	return err
}

// use returns which root modules use the cache: the registered ones, those with views, and those
// found in the directories of --roots.
func use(ctx context.Context, k *job.TargetCache) (cachedir.ListOptions, error) {
	opts := cachedir.ListOptions{Locked: job.Selections}
	var err error
	if opts.Roots, _, err = job.ViewUsers(k.Machine); err != nil {
		return opts, err
	}
	for _, dir := range k.Flags.SearchIn {
		found, err := findRoots(ctx, k, dir)
		if err != nil {
			return opts, err
		}
		opts.Roots = append(opts.Roots, found...)
	}
	return opts, nil
}

// findRoots searches a directory for root modules that an engine or larder has
// initialized. Root modules with an installation by larder are registered in the cache, and
// need no search.
func findRoots(ctx context.Context, k *job.TargetCache, dir string) ([]cachedir.Root, error) {
	path, err := site.Existing(k.Dir, dir, site.Directory, "name a directory that contains root modules")
	if err != nil {
		return nil, err
	}
	k.Out.Detail("looking for root modules in %s", dir)
	found, err := cachedir.FindRoots(ctx, path)
	if err == nil && len(found) == 0 {
		k.Out.Warn("no root module in or below %s has been initialized", dir)
	}
	return found, err
}

// ShowStats adds up the cache. It plans a prune, so that both jobs show the same numbers.
func ShowStats(ctx context.Context, s *site.Site) error {
	k, err := job.OpenCache(ctx, s, false)
	if err != nil || k.Cache == nil {
		return err
	}
	use, err := use(ctx, k)
	if err != nil {
		return err
	}
	plan, err := plan(ctx, k, cachedir.Policy{ListOptions: use})
	if err != nil {
		return err
	}
	v, err := k.Cache.Verify(ctx, cachedir.VerifyOptions{Listing: plan.Listing, Recorded: true})
	if err != nil {
		return err
	}
	showTotals(s.Output, k.Path, plan)
	tellProblems(k, v)
	if plan.Blocked != nil {
		s.Output.WarnOf(fmt.Errorf("larder cache prune would fail: %w", plan.Blocked))
	}
	return nil
}
