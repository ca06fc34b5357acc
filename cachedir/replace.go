package cachedir

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/larder-cli/larder/sources"
)

// replace moves made to target. What is at target is moved into the directory
// aside, and back if made cannot take its place. All three are on one file
// system.
func replace(made, target, aside string) error {
	// At once if the system can, so that nobody finds the place empty.
	if exchange(made, target) == nil {
		return nil
	}
	var err error
	for try := range 3 { // someone else may put something there between our two steps
		old := filepath.Join(aside, "old"+strconv.Itoa(try))
		moved := rename(target, old)
		if moved != nil && !errors.Is(moved, fs.ErrNotExist) {
			return moved
		}
		if err = rename(made, target); err == nil {
			return nil
		}
		if moved == nil {
			_ = rename(old, target) // err says what is wrong, or somebody else has put it right
		}
	}
	return err
}

// abandoned reports whether a temporary file is too old to be in use.
func abandoned(info fs.FileInfo, now time.Time) bool {
	return now.Sub(info.ModTime()) > 24*time.Hour
}

// noSpace adds to an error for want of space what can be done about it.
func noSpace(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return sources.WithHint(err, "free some space, or choose another directory for the plugin cache")
}
