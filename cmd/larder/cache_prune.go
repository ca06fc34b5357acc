package main

import (
	"context"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var cachePruneCommand = &line.Command{
	Name:    "prune",
	Does:    "remove packages that no root module uses",
	Example: "larder cache prune --older-than 30d --dry-run",
	About: "Larder records the root modules for which it installs providers. A root module uses\n" +
		"the versions in its lock file and the packages in its .terraform.",
	Flags: append([]line.Flag{
		rootsFlag,
		maxSizeFlag("remove unused packages until SIZE is left, such as 20G"),
		{Name: "all", Does: "remove even packages in use or kept by prefetch --keep"},
	}, pruneFlags("remove only packages unused for AGE, such as 30d")...),
	Leaves: notRemoved,
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return cache.Prune(ctx, s, cachedir.Policy{
			All: l.Bool("all"), KeepLast: l.Number("keep-last"), MaxSize: l.Size("max-size"), OlderThan: l.Age("older-than"),
		}, l.Text("max-size"))
	}),
}
