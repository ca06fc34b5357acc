package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/work"
)

func mirrorVerifyCommand() *line.Command {
	return &line.Command{
		Name:      "verify",
		Does:      "verify every file in a mirror",
		Arguments: "DIR [FLAG...]",
		Least:     1, Most: 1, Needs: needsMirror,
		Example: "larder mirror verify ./mirror",
		About: "Compares packages with their records and signed checksums, and index.json and\n" +
			"VERSION.json with the archives. Changes nothing, and needs no network.",
		Flags: trustFlags(),
		Run: inSession(func(ctx context.Context, l *line.Line, s *work.Session) error {
			return work.VerifyMirror(ctx, s, l.Word(0))
		}),
	}
}
