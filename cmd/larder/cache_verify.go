package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/cache"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var cacheVerifyCommand = &line.Command{
	Name:    "verify",
	Does:    "verify every package in the plugin cache",
	Example: "larder cache verify",
	About: "Compares each package with its record or its recorded hashes, and with its signed\n" +
		"checksums. Changes nothing, and needs no network. Doesn't read the archives of\n" +
		"recent downloads, which are verified before they are used.",
	Flags: trustFlags,
	Run:   alone(cache.Verify),
}
