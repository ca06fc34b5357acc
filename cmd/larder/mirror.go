package main

import (
	"github.com/larder-cli/larder/cmd/larder/line"
)

var mirrorCommand = &line.Command{
	Name: "mirror",
	Job:  forStores,
	Does: "create, publish, verify and prune mirrors",
	Commands: []*line.Command{
		mirrorSyncCommand, mirrorPushCommand, mirrorListCommand, mirrorVerifyCommand, mirrorRepairCommand,
		mirrorIndexCommand, mirrorRemoveCommand, mirrorPruneCommand, mirrorDiffCommand,
	},
}
