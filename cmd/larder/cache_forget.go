package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var cacheForgetCommand = &line.Command{
	Name:      "forget",
	Does:      "remove the recorded hashes of a version",
	Arguments: "ADDRESS@VERSION [FLAG...]",
	Least:     1, Most: 1, Needs: "needs one ADDRESS@VERSION",
	Example: "larder cache forget hashicorp/random@3.7.2",
	About: "Larder refuses a version that was republished with different contents, until you\n" +
		"forget its old hashes. Ask the publisher first. Removes no packages.",
	Flags: []line.Flag{
		platformsFlag("forget only the hashes of these platforms"),
		{Name: "kept", Does: "undo prefetch --keep, and keep the hashes"},
	},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return cache.ForgetRelease(ctx, s, l.Word(0), l.Bool("kept"))
	}),
}
