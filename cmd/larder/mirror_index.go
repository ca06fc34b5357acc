package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var mirrorIndexCommand = &line.Command{
	Name:      "index",
	Does:      "regenerate index.json and VERSION.json",
	Arguments: "DIR [FLAG...]",
	Least:     1, Most: 1, Needs: needsMirror,
	Example: "larder mirror index ./mirror",
	About: "Reads every archive, so it turns a directory of archives into a network mirror.\n" +
		"Skips archives that it can't read. Signed archives have zh: hashes, and h1: hashes too\n" +
		"if Larder has computed them.",
	Flags: []line.Flag{
		line.Flag{Name: "hashes", Does: "compute the h1: hash of every package"},
		htmlFlag,
		dryRunFlag("show which files would be written"),
	},
	Leaves: "run the command again to complete the index",
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return mirror.Index(ctx, s, l.Word(0), l.Bool("hashes"), l.Bool("html"))
	}),
}
