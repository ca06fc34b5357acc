package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

func mirrorListCommand() *line.Command {
	return &line.Command{
		Name:      "list",
		Does:      "list the packages in a mirror",
		Arguments: "DIR | PLACE [PATTERN...] [FLAG...]",
		Least:     1, Needs: "needs the directory of a mirror, or a place",
		Example: "larder mirror list ./mirror hashicorp/*",
		About: "Shows the size, age and verification result of each package. In a PATTERN, such as\n" +
			"aws or */aws, * matches any name. PLACE is oci://HOST/TEMPLATE, s3://BUCKET/PREFIX or\n" +
			"the https URL of a network mirror, whose providers PATTERN must name.",
		Flags: []line.Flag{endpointFlag()},
		Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
			p, err := place(l, 0)
			if err != nil {
				return err
			}
			return mirror.List(ctx, s, p, l.Words[1:])
		}),
	}
}
