package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/work"
)

func cacheVerifyCommand() *line.Command {
	return &line.Command{
		Name:    "verify",
		Does:    "verify every package in the plugin cache",
		Example: "larder cache verify",
		About: "Compares each package with its record or its recorded hashes, and with its signed\n" +
			"checksums. Changes nothing, and needs no network.",
		Flags: trustFlags(),
		Run: inSession(func(ctx context.Context, l *line.Line, s *work.Session) error {
			return work.VerifyCache(ctx, s)
		}),
	}
}
