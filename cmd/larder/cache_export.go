package main

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var cacheExportCommand = &line.Command{
	Name:      "export",
	Does:      "write locked packages to a bundle",
	Arguments: "FILE [PATH...] [FLAG...]",
	Least:     1, Needs: "needs one FILE, or - for standard output",
	Example: "larder cache export cache.tar -R",
	About: "FILE is a bundle of unpacked packages, for larder cache import; - is standard\n" +
		"output. Its contents depend only on the packages. An identical FILE is not\n" +
		"rewritten. To compress it: larder cache export - | zstd > FILE.",
	Flags: append(treeFlags(thisOne),
		line.Flag{Name: "partial", Does: "export the other packages if some are missing"}),
	Leaves: "nothing was written",
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		if l.Word(0) == "-" && l.Bool("json") {
			return report.Usage(errors.New("--json and - as FILE both write to standard output"))
		}
		return cache.Export(ctx, s, l.Word(0), l.Words[1:], l.Bool("partial"))
	}),
}
