package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/ask"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var listCommand = &line.Command{
	Name:      "list",
	Job:       forQuestions,
	Does:      "list the providers in lock files, or write an SBOM",
	Arguments: "[PATH...] [FLAG...]",
	OnlyDirs:  true,
	Example:   "larder list\nlarder list -R\nlarder list -R --format cyclonedx",
	About: "Shows each version that lock files select, the platforms that they have hashes for, and\n" +
		"how the installed packages were verified. Requests nothing and changes nothing.",
	Flags: []line.Flag{
		recursiveFlag, excludeFlag, choiceFlag("format", "FORMAT", ask.ListFormats),
	},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return ask.List(ctx, s, ask.ListRequest{Roots: l.Words, Format: ask.ListFormat(l.Text("format"))})
	}),
}
