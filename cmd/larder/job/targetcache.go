package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
)

// A TargetCache is the plugin cache that a job is about.
type TargetCache struct {
	*site.Root
	Path  string
	Cache *cachedir.Dir // nil if it does not exist
}

// FindCache returns the path of the cache. It neither creates nor opens the cache.
func FindCache(ctx context.Context, s *site.Site) (*TargetCache, error) {
	m, err := s.Here(ctx)
	switch {
	case err != nil:
		return nil, err
	case m.Flags.NoCache:
		return nil, report.Usage(errors.New("cache commands need a plugin cache, so --no-cache can't be used"))
	case m.CacheRoot() == "":
		return nil, site.ErrNoPlace
	}
	return &TargetCache{Root: m, Path: m.CacheRoot()}, nil
}

// OpenCache opens the cache if it exists, and otherwise says that there is none. It opens
// the cache read-only unless the job changes it.
func OpenCache(ctx context.Context, s *site.Site, changes bool) (*TargetCache, error) {
	k, err := FindCache(ctx, s)
	if err != nil {
		return nil, err
	}
	k.Flags.ReadOnly = k.Flags.ReadOnly || !changes
	if _, err := os.Stat(k.Path); errors.Is(err, fs.ErrNotExist) {
		s.Output.Say("the plugin cache %s does not exist yet", k.Path)
		return k, nil
	}
	entries, _ := os.ReadDir(k.Path)          // opening the cache reports an error
	if len(entries) > 0 && !isStore(k.Path) { // its files would be foreign ones, which larder cache repair moves away
		err := fmt.Errorf("%s is not a plugin cache: it contains other files and no packages", k.Path)
		return k, sources.WithHint(err, "name the plugin cache with --cache, or use an empty directory")
	}
	k.Cache, err = k.OpenCache(k.Path, func(o *cachedir.Options) { o.Shared = k.EngineCache() })
	return k, err
}
