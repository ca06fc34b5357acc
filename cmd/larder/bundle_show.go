package main

import (
	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var bundleShowCommand = &line.Command{
	Name:      "show",
	Does:      "list the packages in a bundle",
	Arguments: "FILE [FLAG...]",
	Least:     1, Most: 1, Needs: "takes one FILE",
	Example: "larder bundle show usb.tar",
	About:   "Reads only the manifest, and doesn't verify it.",
	Run:     onWord(mirror.ShowBundle),
}
