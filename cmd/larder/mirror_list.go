package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var mirrorListCommand = &line.Command{
	Name:      "list",
	Does:      "list the packages in a mirror",
	Arguments: "DIR | PLACE [PATTERN...] [FLAG...]",
	Least:     1, Needs: "needs the directory of a mirror, or a place",
	Example: "larder mirror list ./mirror hashicorp/*",
	About: "Shows the size, age and verification result of each package. In a PATTERN, such as\n" +
		"aws or */aws, * matches any name. PLACE is oci://HOST/TEMPLATE, s3://BUCKET/PREFIX or\n" +
		"the https URL of a network mirror, whose providers PATTERN must name.",
	Flags: []line.Flag{endpointFlag},
	Run:   onPlace(mirror.List),
}
