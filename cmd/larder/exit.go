package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// The exit statuses. All lists of them are made from exitStatuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFound       = 3
	exitInterrupted = 130
)

// exitStatuses describe the exit statuses, for help and README.
var exitStatuses = []struct {
	status        int
	meaning, when string
}{
	{exitDone, "done", "everything succeeded"},
	{exitFailed, "failed", "something failed; the errors say what"},
	{exitUsage, "usage error", "unknown commands and flags, flags that exclude each other"},
	{exitFound, "problems found", "by verify, mirror diff, or lock --check"},
	{exitInterrupted, "interrupted", "what was finished before is complete"},
}

// interruptions describe what remains after commands are interrupted. Commands that are not
// listed write nothing.
var interruptions = map[string]string{
	"install":       "providers already installed are complete; the lock file is intact",
	"exec":          "the command was not run; providers already installed are complete",
	"lock":          "each lock file is unchanged or complete",
	"prefetch":      "packages finished before are complete; run the command again to continue",
	"import":        "packages finished before are complete; run the command again to continue",
	"mirror sync":   "packages finished before are complete; run the command again to continue",
	"mirror index":  "run the command again to complete the index",
	"mirror prune":  "packages not removed yet are complete",
	"bundle create": "no bundle was written",
	"bundle import": "packages finished before are complete; run the command again to continue",
	"cache import":  "packages finished before are complete; run the command again to continue",
	"cache export":  "nothing was written",
	"cache repair":  "packages repaired before are complete",
	"cache prune":   "packages not removed yet are complete",
}

// errNoPlace is returned by commands that use the plugin cache if no directory for it is
// known.
var errNoPlace = errors.New("no directory for a plugin cache is known")

// A usageError is an error in the command line.
type usageError struct{ error }

// Unwrap preserves the hints of the error.
func (e usageError) Unwrap() error { return e.error }

// A foundError reports that a check found problems. They were printed before.
type foundError struct{ error }

// Unwrap preserves the hints of the error.
func (e foundError) Unwrap() error { return e.error }

// Found marks the error as the summary of a check.
func (e foundError) Found() {}

// found returns the error for a check that found n problems, such as "2 differences between
// the mirrors", or nil if n is 0.
func found(n int, thing, where, hint string) error {
	if n == 0 {
		return nil
	}
	err := fmt.Errorf("%s %s", ui.Count(n, thing), where)
	if hint != "" {
		err = sources.WithHint(err, "%s", hint)
	}
	return foundError{err}
}

// status returns the exit status for err.
func status(ctx context.Context, err error) int {
	var usage usageError
	var found foundError
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &found):
		return exitFound
	default:
		return exitFailed
	}
}
