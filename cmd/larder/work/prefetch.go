package work

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer"
)

// Prefetch puts packages into the plugin cache. It takes no lock on a root module and writes to none.
func Prefetch(ctx context.Context, s *Session, request FillRequest) error {
	f := newFilling(s, request)
	if err := f.take(request.Arguments); err != nil {
		return err
	}
	if f.flags.NoCache {
		return report.Usage(errors.New("prefetch needs a plugin cache, so --no-cache can't be used"))
	}
	sum, err := f.run(ctx, func(s *supply) (destination, error) { return cacheToFill(s, request.Keep) }, func(context.Context) error { return nil })
	if !sum.Empty() {
		f.output.Conclude("%s", sum.Text(f.output))
	}
	return err
}

// cacheToFill returns the plugin cache of a supply, which may keep the packages. Unlike other
// commands, prefetch fails without one.
func cacheToFill(s *supply, keep bool) (d destination, err error) {
	path := s.cacheRoot()
	if path == "" {
		return d, errNoPlace
	}
	d.engineCache, d.had = s.engineCache(), installer.FromStore
	cache, err := s.openCache(path, func(o *cachedir.Options) { o.Shared, o.KeepArchives = d.engineCache, true })
	if err != nil {
		return d, err
	}
	if d.Store = cache; keep {
		d.keep = cache.Keep
	}
	return d, nil
}
