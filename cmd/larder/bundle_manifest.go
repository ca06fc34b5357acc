package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

func bundleManifestCommand() *line.Command {
	return &line.Command{
		Name:      "manifest",
		Does:      "print a manifest of a mirror, for bundle create --since",
		Arguments: "DIR [FLAG...]",
		Least:     1, Most: 1, Needs: "takes the directory of one mirror",
		Example: "larder bundle manifest ./mirror > inside.json",
		About:   "Prints JSON. Reads only packages that have changed since Larder last read them.",
		Run:     atSite(bundleManifest),
	}
}

func bundleManifest(ctx context.Context, l *line.Line, s *site.Site) error {
	return mirror.ShowManifest(ctx, s, l.Word(0))
}
