package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var cacheKeyCommand = &line.Command{
	Name:      "key",
	Does:      "print a key for CI caches",
	Arguments: "[PATH...] [FLAG...]",
	OnlyDirs:  true,
	Example:   "larder cache key -R",
	About: "The key depends only on the locked versions and the platforms. Without a lock file,\n" +
		"it depends on the version constraints.",
	Flags: treeFlags(thisOne),
	Run:   onWords(cache.ShowKey),
}
