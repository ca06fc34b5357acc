package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var cacheImportCommand = &line.Command{
	Name:      "import",
	Does:      "add the packages in bundles to the plugin cache",
	Arguments: "FILE... [FLAG...]",
	Least:     1, Needs: "needs a FILE",
	Example: "larder cache import cache.tar",
	About: "FILE is a bundle that cache export or bundle create wrote. Verifies each archive with\n" +
		"the signed checksums in FILE before adding its package, and keeps existing packages.",
	Flags:  trustFlags,
	Leaves: continues,
	Run:    onWords(cache.Import),
}
