package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/ask"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var outdatedCommand = &line.Command{
	Name:      "outdated",
	Job:       forQuestions,
	Does:      "list locked providers that have newer versions",
	Arguments: "[PATH...] [FLAG...]",
	OnlyDirs:  true,
	Example:   "larder outdated -R",
	About: "Shows the locked version of each provider, the newest version that the constraints\n" +
		"allow, the newest version, and the constraint that excludes it. Changes nothing.",
	Flags: []line.Flag{
		recursiveFlag, excludeFlag,
		{Name: "check", Does: "exit with status 3 if a newer version is allowed"},
	},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return ask.ListOutdated(ctx, s, ask.OutdatedRequest{Roots: l.Words, Check: l.Bool("check")})
	}),
}
