package install

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
)

// Prefetch puts packages into the plugin cache. It takes no lock on a root module and writes to none.
func Prefetch(ctx context.Context, s *site.Site, request job.FillRequest) error {
	f := job.NewFilling(s, request)
	if err := f.Take(request.Arguments); err != nil {
		return err
	}
	if f.Flags.NoCache {
		return report.Usage(errors.New("prefetch needs a plugin cache, so --no-cache can't be used"))
	}
	to := func(s *job.Supply) (job.Destination, error) { return cacheToFill(s, request.Keep) }
	sum, err := f.Run(ctx, to, func(context.Context) error { return nil })
	if !sum.Empty() {
		text := sum.Text(f.Output)
		if request.Keep && !sum.DryRun {
			text = report.Also(text, ui.N(sum.Packages, "kept by larder cache prune"))
		}
		f.Output.Conclude("%s", text)
	}
	return err
}

// cacheToFill returns the plugin cache of a supply, which may keep the packages. Unlike other
// commands, prefetch fails without one.
func cacheToFill(s *job.Supply, keep bool) (d job.Destination, err error) {
	path := s.CacheRoot()
	if path == "" {
		return d, site.ErrNoPlace
	}
	d.EngineCache, d.Had = s.EngineCache(), installer.FromStore
	cache, err := s.OpenCache(path, func(o *cachedir.Options) { o.Shared, o.KeepArchives = d.EngineCache, true })
	if err != nil {
		return d, err
	}
	if d.Store = cache; keep {
		d.Keep = cache.Keep
	}
	return d, nil
}
