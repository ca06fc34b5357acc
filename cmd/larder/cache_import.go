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
	About: "Hashes each package before adding it, and keeps existing packages. For packages from\n" +
		"cache export, the result is \"hash only\", unless this machine has verified the archive\n" +
		"before. Archives are verified.",
	Flags:  trustFlags,
	Leaves: continues,
	Run:    onWords(cache.Import),
}
