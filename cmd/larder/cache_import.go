package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/work"
)

func cacheImportCommand() *line.Command {
	return &line.Command{
		Name:      "import",
		Does:      "add exported packages to the plugin cache",
		Arguments: "FILE... | PLACE [PATH...] [FLAG...]",
		Least:     1, Needs: "needs a FILE, - for standard input, or a place",
		Example: "larder cache import cache.tar",
		About: "Hashes the contents of each package before adding it, and keeps existing packages.\n" +
			"The result is \"hash only\", unless this machine has verified the archive before. If\n" +
			"FILE is -, reads standard input. From a PLACE (see larder cache export), fetches what\n" +
			"the lock files of root modules select and the cache lacks.",
		Flags:  slices.Concat(treeFlags(notHere), trustFlags(), []line.Flag{endpointFlag()}),
		Leaves: continues,
		Run:    inSession(cacheImport),
	}
}

func cacheImport(ctx context.Context, l *line.Line, s *work.Session) error {
	p, err := place(l, 0)
	if err != nil {
		return err
	}
	if work.IsPlace(p.Place) {
		return work.ImportShared(ctx, s, p, l.Words[1:])
	}
	for _, flag := range []string{"recursive", "exclude", "platform"} {
		if l.IsSet(flag) {
			return report.Usage(fmt.Errorf("--%s requires a place: all packages of a file are imported", flag))
		}
	}
	return work.ImportExports(ctx, s, l.Words)
}
