package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

// snapshotFlag selects everything, so it excludes the flags that select.
var snapshotFlag = line.Flag{Group: selectionFlags, Name: "snapshot", Value: "FILE", Kind: line.File,
	Does: "make DIR equal to a signed set, and remove the rest"}

// selecting are the names of the flags that select packages, and of --unpacked, as sets list archives.
var selecting = []string{
	"from", "recursive", "exclude", "platform", "newest", "all-versions", "upgrade", "no-lock-file", "unpacked",
}

var mirrorSyncCommand = &line.Command{
	Name:      "sync",
	Does:      "add locked, or else the newest, packages to a mirror",
	Arguments: "DIR [PATH | ADDRESS[@VERSION]]... [FLAG...]",
	Example: "larder mirror sync ./mirror -R --dry-run\nlarder mirror sync ./mirror -R\n" +
		"larder mirror sync ./mirror hashicorp/random@3.7.2",
	Flags: fillFlags(
		snapshotFlag,
		line.Flag{Name: "unpacked", Does: "write directories; not for network mirrors"},
		writeConfigFlag,
		htmlFlag,
		endpointFlag,
		dryRunFlag("show what would be fetched"),
	),
	Leaves: continues,
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		if err := l.Exclusive("snapshot", selecting...); err != nil {
			return err
		}
		return mirror.Sync(ctx, s, mirror.SyncRequest{
			FillRequest: readFill(l), Unpacked: l.Bool("unpacked"), WriteConfig: l.Text("write-config"), HTML: l.Bool("html"),
			Snapshot: l.Text("snapshot"),
		})
	}),
}
