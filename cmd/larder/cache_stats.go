package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var cacheStatsCommand = &line.Command{
	Name:    "stats",
	Does:    "show the size of the plugin cache, by provider",
	Example: "larder cache stats",
	About:   "Shows how much space larder cache prune would free, and how much links save.",
	Flags:   []line.Flag{rootsFlag},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return cache.ShowStats(ctx, s, l.Texts("roots"))
	}),
}
