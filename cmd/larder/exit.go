package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// The exit statuses. Everything that lists them does so by exitStatuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFound       = 3
	exitInterrupted = 130
)

// exitStatuses say what the exit statuses mean, for help and README.
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

// interruptions are what commands leave that are interrupted. Others write nothing.
var interruptions = map[string]string{
	"install":       "providers installed before are complete, the lock file is unchanged or complete",
	"lock":          "each lock file is unchanged or complete",
	"prefetch":      "packages finished before are complete; run the command again to continue",
	"import":        "packages finished before are complete; run the command again to continue",
	"mirror sync":   "packages finished before are complete; run the command again to continue",
	"mirror index":  "run the command again to complete the index",
	"mirror prune":  "packages removed before are gone, others are complete",
	"bundle create": "no file was completed, and nothing is left of it",
	"bundle import": "packages finished before are complete; run the command again to continue",
	"cache import":  "packages finished before are complete; run the command again to continue",
	"cache export":  "nothing was written",
	"cache repair":  "packages repaired before are complete",
	"cache prune":   "packages removed before are gone, others are complete",
}

// errNoPlace is the error of commands that are about the plugin cache, where no
// directory for one is known.
var errNoPlace = errors.New("no directory for a plugin cache is known")

// A usageError is a command line that makes no sense.
type usageError struct{ error }

// Unwrap keeps the hints of the error.
func (e usageError) Unwrap() error { return e.error }

// A foundError says that a check found something, which has been told.
type foundError struct{ error }

// Unwrap keeps the hints of the error.
func (e foundError) Unwrap() error { return e.error }

// Found makes the error the summary of a check.
func (e foundError) Found() {}

// found returns the error of a check that found n things, such as "2 differences
// between the mirrors", and nil if it found none.
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

// status is the exit status that tells of err.
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
