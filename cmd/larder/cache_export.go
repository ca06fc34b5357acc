package main

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var cacheExportCommand = &line.Command{
	Name:      "export",
	Does:      "write locked packages to a bundle",
	Arguments: "FILE [PATH...] [FLAG...]",
	Least:     1, Needs: "needs one FILE",
	Example: "larder cache export cache.tar -R",
	About: "FILE is a bundle for larder cache import. Takes the packages that FILE has from there,\n" +
		"and downloads the others. The contents of FILE depend only on the packages. An\n" +
		"identical FILE is not rewritten.",
	Flags: slices.Concat(treeFlags(thisOne), []line.Flag{
		{Name: "partial", Does: "leave out packages that aren't available"},
	}, trustFlags),
	Leaves: "nothing was written",
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return mirror.Export(ctx, s, l.Word(0), l.Words[1:], l.Bool("partial"))
	}),
}
