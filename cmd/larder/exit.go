package main

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/report"
)

// The exit statuses. All lists of them are made from exitStatuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFound       = 3
	exitInterrupted = 130
)

// exitStatuses describe the exit statuses, for help and documents.
var exitStatuses = []struct {
	status        int
	meaning, when string
}{
	{exitDone, "done", "everything succeeded"},
	{exitFailed, "failed", "an error occurred"},
	{exitUsage, "usage error", "unknown commands or flags, wrong or conflicting values"},
	{exitFound, "problems found", "a check, verify, doctor or mirror diff found problems"},
	{exitInterrupted, "interrupted", "finished work is kept"},
}

// What an interruption leaves, of a prune and of commands that put packages somewhere.
const (
	notRemoved = "packages not removed yet are complete"
	continues  = "packages finished before are complete; run the command again to continue"
)

// status returns the exit status for err.
func status(ctx context.Context, err error) int {
	var usage report.UsageError
	var found report.FoundError
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
