package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/work"
)

func mirrorListCommand() *line.Command {
	return &line.Command{
		Name:      "list",
		Does:      "list the packages in a mirror",
		Arguments: "DIR [PATTERN...] [FLAG...]",
		Least:     1, Needs: needsMirror,
		Example: "larder mirror list ./mirror hashicorp/*",
		About: "Shows the size, age and verification result of each package. In a PATTERN, such as\n" +
			"aws or */aws, * matches any name.",
		Run: inSession(func(ctx context.Context, l *line.Line, s *work.Session) error {
			return work.ListMirror(ctx, s, l.Word(0), l.Words[1:])
		}),
	}
}
