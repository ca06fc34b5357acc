package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var bundleManifestCommand = &line.Command{
	Name:      "manifest",
	Does:      "print a manifest of a mirror, for bundle create --since",
	Arguments: "DIR [FLAG...]",
	Least:     1, Most: 1, Needs: "takes the directory of one mirror",
	Example: "larder bundle manifest ./mirror > inside.json",
	About:   "Prints JSON. Reads only packages that have changed since Larder last read them.",
	Run:     onWord(mirror.ShowManifest),
}
