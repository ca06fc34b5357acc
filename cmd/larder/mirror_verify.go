package main

import (
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var mirrorVerifyCommand = &line.Command{
	Name:      "verify",
	Does:      "verify every file in a mirror",
	Arguments: "DIR | PLACE [PATTERN...] [FLAG...]",
	Least:     1, Needs: "needs the directory of a mirror, or a place",
	Example: "larder mirror verify ./mirror",
	About: "Compares packages with their records and signed checksums, and index.json and\n" +
		"VERSION.json with the archives. Changes nothing, and needs no network. Of a PLACE\n" +
		"(see larder mirror list), it verifies checksums and signatures, and reads no archive.",
	Flags: slices.Concat(trustFlags, []line.Flag{endpointFlag}),
	Run:   onPlace(mirror.Verify),
}
