package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var cachePathCommand = &line.Command{
	Name:    "path",
	Does:    "print the path of the plugin cache",
	Example: "larder cache path",
	Run:     alone(cache.ShowPath),
}
