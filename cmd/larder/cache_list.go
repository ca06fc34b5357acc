package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var cacheListCommand = &line.Command{
	Name:      "list",
	Does:      "list the packages in the plugin cache",
	Arguments: "[PATTERN...] [FLAG...]",
	Example:   "larder cache list hashicorp/* --sort size",
	About: "Shows the size, last use, root modules and verification result of each package. In\n" +
		"a PATTERN, such as aws or */aws, * matches any name.",
	Flags: []line.Flag{
		choiceFlag("sort", "ORDER", cache.OrderNames),
		{Group: selectionFlags, Name: "unused", Does: "list only packages that no known root module uses"},
		{Group: selectionFlags, Name: "older-than", Value: "AGE", Kind: line.Age,
			Does: "list only packages unused for AGE, such as 30d"},
		platformsFlag("list only packages for these platforms"),
		rootsFlag,
	},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return cache.List(ctx, s, cache.ListRequest{
			Patterns: l.Words, Order: l.Text("sort"), Platforms: l.Texts("platform"),
			Age: l.Age("older-than"), Older: l.Text("older-than"), Unused: l.Bool("unused"),
		})
	}),
}
