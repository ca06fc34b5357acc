package main

import (
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job/install"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var verifyCommand = &line.Command{
	Name:      "verify",
	Job:       forModules,
	Does:      "verify installed providers",
	Arguments: "[PATH...] [FLAG...]",
	OnlyDirs:  true,
	Example:   "larder verify -R",
	About: "Hashes the packages in .terraform, and compares them with the lock file, with their\n" +
		"records and with their signed checksums. Changes nothing, and needs no network.",
	Flags: slices.Concat(treeFlags(thisOne), trustFlags),
	Run:   onWords(install.Verify),
}
