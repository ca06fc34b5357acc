package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var mirrorDiffCommand = &line.Command{
	Name:      "diff",
	Does:      "compare two mirrors",
	Arguments: "A B [FLAG...]",
	Least:     2, Most: 2, Needs: "takes two arguments, which are directories, manifests or places",
	Example: "larder mirror diff ./mirror https://mirror.example.com/providers/",
	About: "A and B are directories, bundles or manifests (see larder bundle manifest), or places:\n" +
		"oci://HOST/TEMPLATE, s3://BUCKET/PREFIX or the https URL of a network mirror. If a place\n" +
		"doesn't list its providers, Larder looks for those of the other mirror. Hashes packages\n" +
		"without a record, compares the signed checksums, and reads no archive of a place.",
	Flags: []line.Flag{endpointFlag},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		return mirror.Diff(ctx, s, site.PlaceRequest{Place: l.Word(0)}, site.PlaceRequest{Place: l.Word(1)})
	}),
}
