package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var cacheStatsCommand = &line.Command{
	Name:    "stats",
	Does:    "show the size of the plugin cache, by provider",
	Example: "larder cache stats",
	About:   "Shows how much space larder cache prune would free, and how much links save.",
	Flags:   []line.Flag{rootsFlag},
	Run:     alone(cache.ShowStats),
}
