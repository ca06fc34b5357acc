package main

import (
	"github.com/larder-cli/larder/cmd/larder/line"
)

var bundleCommand = &line.Command{
	Name:  "bundle",
	Job:   forStores,
	Does:  "carry packages across an air gap in a file",
	About: "A bundle is a tar file. Extracting it creates a mirror.",
	Commands: []*line.Command{
		bundleCreateCommand, bundleShowCommand, bundleVerifyCommand,
		bundleImportCommand, bundleManifestCommand,
	},
}
