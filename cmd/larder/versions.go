package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/ask"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var versionsCommand = &line.Command{
	Name:      "versions",
	Job:       forQuestions,
	Does:      "list the versions of a provider",
	Arguments: "ADDRESS [PATH] [FLAG...]",
	Least:     1,
	Most:      2,
	Needs:     "takes one provider, and a root module if it isn't the one here",
	Example:   "larder versions hashicorp/random",
	About: "Shows what each installation method offers, the newest version first. The columns:\n\n" +
		"  SOURCES       installation methods that offer the version\n" +
		"  PLATFORMS     number of platforms for which there is a package\n" +
		"  PROTOCOLS     versions of the plugin protocol that the provider supports\n" +
		"  ENGINES FROM  oldest releases of Terraform and OpenTofu with such a protocol\n" +
		"  HERE          what the root module in PATH allows, locks and has installed",
	Flags: []line.Flag{
		{Name: "all", Does: "list all versions, not only the newest twenty"},
		platformsFlag("list only versions for all of these platforms"),
	},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return ask.Versions(ctx, s, ask.VersionsRequest{Arguments: l.Words, All: l.Bool("all")})
	}),
}
