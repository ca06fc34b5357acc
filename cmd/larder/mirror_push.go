package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var mirrorPushCommand = &line.Command{
	Name:      "push",
	Does:      "publish a mirror in an OCI registry or a bucket",
	Arguments: "DIR PLACE [PATTERN...] [FLAG...]",
	Least:     2, Needs: "takes the directory of a mirror and a place",
	Example: "larder mirror push ./mirror 'oci://ghcr.io/acme/${namespace}/${type}'",
	About: "PLACE is oci://HOST/TEMPLATE, from which OpenTofu installs with oci_mirror, or\n" +
		"s3://BUCKET/PREFIX, which becomes a network mirror. Uploads only what PLACE lacks,\n" +
		"with the signed checksums. Refuses an archive that PLACE has with other contents.",
	Flags: []line.Flag{
		{Name: "replace", Does: "replace archives that have other contents"},
		{Name: "prune", Does: "remove versions that DIR lacks, of providers in DIR"},
		endpointFlag,
		dryRunFlag("show what would be changed"),
	},
	Leaves: continues,
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return mirror.Push(ctx, s, mirror.PushRequest{
			Dir: l.Word(0), To: site.PlaceRequest{Place: l.Word(1)}, Patterns: l.Words[2:],
			Replace: l.Bool("replace"), Prune: l.Bool("prune"),
		})
	}),
}
