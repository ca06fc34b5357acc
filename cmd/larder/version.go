package main

import "github.com/larder-cli/larder/cmd/larder/line"

func versionCommand() *line.Command {
	return &line.Command{
		Name:    "version",
		Job:     forLarder,
		Does:    "print the version",
		Example: "larder version",
		Run:     showVersion,
	}
}
