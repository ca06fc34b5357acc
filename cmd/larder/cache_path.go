package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

func cachePathCommand() *line.Command {
	return &line.Command{
		Name:    "path",
		Does:    "print the path of the plugin cache",
		Example: "larder cache path",
		Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
			return cache.ShowPath(ctx, s)
		}),
	}
}
