package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var mirrorIndexCommand = &line.Command{
	Name:      "index",
	Does:      "regenerate index.json and VERSION.json",
	Arguments: "DIR [FLAG...]",
	Least:     1, Most: 1, Needs: needsMirror,
	Example: "larder mirror index ./mirror",
	About: "Reads every archive, so it turns a directory of archives into a network mirror.\n" +
		"Skips archives that it can't read.",
	Flags:  []line.Flag{dryRunFlag("show which files would be written")},
	Leaves: "run the command again to complete the index",
	Run:    onWord(mirror.Index),
}
