package cachedir

import (
	"context"
	"sync"

	"github.com/larder-cli/larder/sources/staging"
)

// flushed sees to it that no record will vouch for files that a power cut has
// since emptied: they would have the right sizes and times, but not the bytes.
// Waiting for the medium takes longer than all else, so where a system can tell
// one start from the next the record names this one, is believed until the
// next, and [Dir.settle] does the waiting when it costs nothing any more. The
// result is what the record is to name.
func flushed(ctx context.Context, dir string) (boot string, err error) {
	if boot = thisBoot(); boot != "" {
		return boot, ctx.Err()
	}
	return "", staging.SyncTree(ctx, dir)
}

// thisBoot is what this start of the system is called, and empty if it has no
// name.
var thisBoot = sync.OnceValue(bootID)

// survives reports whether the files of r, if they look the same, have had to
// outlive no more than processes since they were written.
func (r record) survives() bool { return r.Boot == "" || r.Boot == thisBoot() }

// settle makes the record of what is in dir outlive this start of the system.
func (d *Dir) settle(path, dir string, r record) {
	if r.Boot == "" || staging.SyncTree(context.Background(), dir) != nil {
		return
	}
	r.Boot = ""
	d.keepRecord(path, r)
}
