package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var bundleVerifyCommand = &line.Command{
	Name:      "verify",
	Does:      "verify every package in a bundle",
	Arguments: "FILE [FLAG...]",
	Least:     1, Most: 1, Needs: "takes one FILE",
	Example: "larder bundle verify usb.tar",
	About: "Hashes packages and their contents, and verifies their signed checksums.\n" +
		"Changes nothing, and needs no network.",
	Flags: trustFlags,
	Run:   onWord(mirror.VerifyBundle),
}
