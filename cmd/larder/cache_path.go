package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
)

func cachePathCommand() *line.Command {
	return &line.Command{
		Name:    "path",
		Does:    "print the path of the plugin cache",
		Example: "larder cache path",
		Run:     alone(cache.ShowPath),
	}
}
