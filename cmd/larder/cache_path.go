package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/work"
)

func cachePathCommand() *line.Command {
	return &line.Command{
		Name:    "path",
		Does:    "print the path of the plugin cache",
		Example: "larder cache path",
		Run: inSession(func(ctx context.Context, l *line.Line, s *work.Session) error {
			return work.CachePath(ctx, s)
		}),
	}
}
