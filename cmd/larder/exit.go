package main

import (
	"context"
	"errors"
)

// The exit statuses, as the help tells them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFound       = 3
	exitInterrupted = 130
)

// A usageError is a command line that makes no sense.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// A foundError says that a check found something, which has been told.
type foundError struct{ error }

func (e foundError) Unwrap() error { return e.error }

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
