package main

import (
	"github.com/larder-cli/larder/cmd/larder/line"
)

var cacheCommand = &line.Command{
	Name:  "cache",
	Job:   forStores,
	Does:  "list, verify, repair and prune the plugin cache",
	About: "These commands work on any plugin cache, even while larder installs from it.",
	Commands: []*line.Command{
		cachePathCommand, cacheListCommand, cacheStatsCommand,
		cacheVerifyCommand, cacheRepairCommand, cachePruneCommand,
		cacheKeyCommand, cacheExportCommand, cacheImportCommand, cacheForgetCommand,
	},
}
