package main

import (
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job/install"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var lockCommand = &line.Command{
	Name:      "lock",
	Job:       forModules,
	Does:      "add hashes for any platform to lock files",
	Arguments: "[PATH | ADDRESS]... [FLAG...]",
	Example: "larder lock --check\nlarder lock --dry-run --platform linux_amd64,darwin_arm64\n" +
		"larder lock --platform linux_amd64,darwin_arm64",
	About: "Like terraform providers lock, but uses the configured installation methods, and\n" +
		"doesn't download archives again if their hashes are recorded. --upgrade locks the\n" +
		"new version for the same platforms as the old one.",
	Flags: slices.Concat(treeFlags(declared), []line.Flag{upgradeFlag}, trustFlags, []line.Flag{
		line.Flag{Name: "keep", Does: "keep packages for other platforms in the plugin cache", Excludes: "no-cache"},
		line.Flag{Name: "check", Does: "report missing and unknown hashes, change no lock file", Excludes: "dry-run"},
		strictFlag,
		dryRunFlag("show how lock files would change"),
		allowEmptyFlag,
	}),
	Leaves: "each lock file is unchanged or complete",
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		if l.Bool("strict") && !l.Bool("check") {
			return report.Usage(errors.New("--strict requires --check"))
		}
		return install.Lock(ctx, s, install.LockRequest{
			Arguments: l.Words, Keep: l.Bool("keep"), Check: l.Bool("check"), Strict: l.Bool("strict"),
		})
	}),
}
