package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/install"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var prefetchCommand = &line.Command{
	Name:      "prefetch",
	Job:       forStores,
	Does:      "download packages into the plugin cache",
	Arguments: "[PATH | ADDRESS[@VERSION]]... [FLAG...]",
	Example:   "larder prefetch -R . --platform linux_amd64,darwin_arm64",
	About: "PATH is a root module, a lock file or a .tf file. Chooses the locked version, or\n" +
		"else the newest one allowed. Changes only the plugin cache.",
	Flags: fillFlags(dryRunFlag("show what would be fetched"),
		line.Flag{Name: "keep", Does: "let larder cache prune keep the packages"}),
	Leaves: continues,
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return install.Prefetch(ctx, s, readFill(l))
	}),
}
