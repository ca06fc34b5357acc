package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/work"
)

func mirrorSyncCommand() *line.Command {
	return &line.Command{
		Name:      "sync",
		Does:      "add packages to a mirror, created if missing",
		Arguments: "DIR [PATH | ADDRESS[@VERSION]]... [FLAG...]",
		Example:   "larder mirror sync ./mirror hashicorp/random@3.7.2",
		About:     "Chooses the locked version, or else the newest one allowed. Removes no packages.",
		Flags: fillFlags(
			line.Flag{Name: "unpacked", Does: "write directories; not for network mirrors"},
			writeConfigFlag(),
			dryRunFlag("show what would be fetched"),
		),
		Leaves: continues,
		Run:    inSession(mirrorSync),
	}
}

// mirrorSync reads the flags of mirror sync, and adds packages to a mirror.
func mirrorSync(ctx context.Context, l *line.Line, s *work.Session) error {
	request, err := readFill(l)
	if err != nil {
		return err
	}
	return work.SyncMirror(ctx, s, request, l.Bool("unpacked"), l.Text("write-config"))
}
