package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

func bundleShowCommand() *line.Command {
	return &line.Command{
		Name:      "show",
		Does:      "list the packages in a bundle",
		Arguments: "FILE [FLAG...]",
		Least:     1, Most: 1, Needs: "takes one FILE",
		Example: "larder bundle show usb.tar",
		About:   "Reads only the manifest, and doesn't verify it.",
		Run:     atSite(bundleShow),
	}
}

func bundleShow(_ context.Context, l *line.Line, s *site.Site) error {
	return mirror.ShowBundle(s, l.Word(0))
}
