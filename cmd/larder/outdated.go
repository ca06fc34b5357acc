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
	About: "Changes nothing. The columns:\n\n" +
		"  LOCKED        version in the lock file, and the root modules that lock it\n" +
		"  ALLOWED       newest version that the constraints and the policy allow\n" +
		"  NEWEST        newest version that there is\n" +
		"  HELD BACK BY  the constraint or the rule that excludes the newest version\n" +
		"  TO ALLOW IT   the constraint to write instead, with --verbose",
	Flags: []line.Flag{
		recursiveFlag, excludeFlag,
		{Name: "check", Does: "exit with status 3 if a locked version can or must change"},
	},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return ask.ListOutdated(ctx, s, ask.OutdatedRequest{Roots: l.Words, Check: l.Bool("check")})
	}),
}
