package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/install"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var checkCommand = &line.Command{
	Name:      "check",
	Job:       forModules,
	Does:      "check root modules against the policy and lock files",
	Arguments: "[PATH...] [FLAG...]",
	OnlyDirs:  true,
	Example:   "larder check -R --format sarif",
	About: "For CI: exits with status 3 if the policy excludes a provider or a version, a host is\n" +
		"unexpected, a lock file is missing, incomplete, or at odds with the configuration, or\n" +
		"a locked version was republished. Changes no root module.",
	Flags: []line.Flag{
		recursiveFlag, excludeFlag,
		{Group: selectionFlags, Name: "since", Value: "REV", Does: "check only what changed since REV in git; implies -R"},
		platformsFlag("check these platforms, besides those in the policy"),
		strictFlag,
		choiceFlag("format", "FORMAT", install.CheckFormats),
	},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return install.Check(ctx, s, install.CheckRequest{
			Roots: l.Words, Strict: l.Bool("strict"), Since: l.Text("since"), Format: install.CheckFormat(l.Text("format")),
		})
	}),
}
