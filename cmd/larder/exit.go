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
var exitStatuses = []report.ExitStatus{
	{Status: exitDone, Meaning: "done", When: "everything succeeded"},
	{Status: exitFailed, Meaning: "failed", When: "an error occurred"},
	{Status: exitUsage, Meaning: "usage error", When: "unknown commands or flags, wrong or conflicting values"},
	{Status: exitFound, Meaning: "problems found", When: "a check, verify, doctor or mirror diff found problems"},
	{Status: exitInterrupted, Meaning: "interrupted", When: "finished work is kept"},
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
