package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var cacheRepairCommand = &line.Command{
	Name:    "repair",
	Does:    "replace damaged packages in the plugin cache",
	Example: "larder cache repair --dry-run",
	About: "Verifies the cache and downloads damaged packages again. With --offline, uses only\n" +
		"sources on this machine. Moves damaged packages and unknown files to\n" +
		".larder/quarantine in the cache. Fails if it can't replace a package.",
	Flags:  []line.Flag{dryRunFlag("show what would be replaced")},
	Leaves: "packages repaired before are complete",
	Run:    alone(cache.Repair),
}
