package main

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/builder"
)

var mirrorPruneCommand = &line.Command{
	Name:      "prune",
	Does:      "remove packages that root modules don't select",
	Arguments: "DIR [FLAG...]",
	Least:     1, Most: 1, Needs: needsMirror,
	Example: "larder mirror prune ./mirror --keep-locked-by . --dry-run",
	About: "Keeps the versions that larder mirror sync selects for the same paths and engines, for\n" +
		"any platform, what lock files have, and what --older-than or --keep-last keeps. If no\n" +
		"version is locked, keeps the newest in the mirror.",
	Flags: append([]line.Flag{
		{Group: selectionFlags, Name: "keep-locked-by", Value: "PATH", Kind: line.File, Repeatable: true,
			Does: "keep what root modules or lock files in PATH select"},
		recursiveFlag,
		excludeFlag,
	}, pruneFlags("remove only packages older than AGE, such as 90d")...),
	Leaves: notRemoved,
	Run:    atSite(mirrorPrune),
}

// mirrorPrune requires flags that select the packages to keep. Unlike a plugin cache, a mirror
// has no record of its users.
func mirrorPrune(ctx context.Context, l *line.Line, s *site.Site) error {
	policy := builder.Policy{KeepLast: l.Number("keep-last"), OlderThan: l.Age("older-than")}
	keep := l.Texts("keep-locked-by")
	switch {
	case len(keep) == 0 && policy.KeepLast == 0 && policy.OlderThan == 0:
		return report.Usage(errors.New("every package would be removed: add --keep-locked-by, --keep-last or --older-than"))
	case l.Bool("recursive") && len(keep) == 0:
		return report.Usage(errors.New("--recursive requires --keep-locked-by"))
	}
	return mirror.Prune(ctx, s, l.Word(0), keep, policy)
}
