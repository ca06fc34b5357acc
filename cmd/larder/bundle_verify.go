package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/work"
)

func bundleVerifyCommand() *line.Command {
	return &line.Command{
		Name:      "verify",
		Does:      "verify every package in a bundle",
		Arguments: "FILE [FLAG...]",
		Least:     1, Most: 1, Needs: "takes one FILE",
		Example: "larder bundle verify usb.tar",
		About: "Hashes packages and their contents, and verifies their signed checksums.\n" +
			"Changes nothing, and needs no network.",
		Flags: trustFlags(),
		Run:   inSession(bundleVerify),
	}
}

func bundleVerify(ctx context.Context, l *line.Line, s *work.Session) error {
	return work.VerifyBundle(ctx, s, l.Word(0))
}
