package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/work"
)

func mirrorDiffCommand() *line.Command {
	return &line.Command{
		Name:      "diff",
		Does:      "compare two mirrors",
		Arguments: "A B [FLAG...]",
		Least:     2, Most: 2, Needs: "takes two arguments, which are directories, manifests or, one of them, an https URL",
		Example: "larder mirror diff ./mirror https://mirror.example.com/providers/",
		About: "A and B are directories, bundles or manifests (see larder bundle manifest). One can\n" +
			"be the https URL of a network mirror. Network mirrors don't list their providers,\n" +
			"so Larder looks for the providers of the other mirror. Hashes packages without a\n" +
			"record, and compares the signed checksums of versions in both.",
		Run: inSession(mirrorDiff),
	}
}

func mirrorDiff(ctx context.Context, l *line.Line, s *work.Session) error {
	return work.CompareMirrors(ctx, s, l.Word(0), l.Word(1))
}
