package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var mirrorRemoveCommand = &line.Command{
	Name:      "remove",
	Does:      "remove versions from a mirror",
	Arguments: "DIR ADDRESS@VERSION[/PLATFORM]... [FLAG...]",
	Least:     2, Needs: "needs a directory and at least one ADDRESS@VERSION",
	Example: "larder mirror remove ./mirror hashicorp/random@3.7.2",
	About: "Removes the packages of a version for all platforms, or for one, and their entries in\n" +
		"index.json and VERSION.json. Updates the index before removing packages.",
	Flags:  []line.Flag{dryRunFlag("show what would be removed")},
	Leaves: notRemoved,
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return mirror.Remove(ctx, s, l.Word(0), l.Words[1:])
	}),
}
