package report

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A UsageError reports a mistake in the command line.
type UsageError struct{ error }

// Unwrap preserves the hints of the error.
func (e UsageError) Unwrap() error { return e.error }

// Usage returns err as an error in the command line.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return UsageError{err}
}

// A FoundError reports that a check found problems, which were already printed.
type FoundError struct{ Err error }

// Unwrap preserves the hints of the error.
func (e FoundError) Unwrap() error { return e.Err }

// Error implements error.
func (e FoundError) Error() string { return e.Err.Error() }

// A ToldError reports that a command failed for some of several root modules. Their own
// errors were already printed, and the summary counts them.
type ToldError struct{ Failed, Of int }

// Error implements error.
func (e *ToldError) Error() string {
	return fmt.Sprintf("%d of %d root modules failed", e.Failed, e.Of)
}

// Found returns the error for a check that found n problems, such as "2 differences between
// the mirrors", or nil if n is 0. Empty hints are left out.
func Found(n int, thing, where string, hints ...string) error {
	if n == 0 {
		return nil
	}
	err := fmt.Errorf("%s %s", ui.Count(n, thing), where)
	for _, hint := range slices.Backward(hints) { // the outermost is shown first
		if hint != "" {
			err = sources.WithHint(err, "%s", hint)
		}
	}
	return FoundError{err}
}

// hintsOf returns the hints of an error. Where access is denied, there is always one.
func hintsOf(err error) []string {
	hints := sources.Hints(err)
	if len(hints) == 0 && errors.Is(err, fs.ErrPermission) {
		return []string{"check the owner and the permissions, and those of the directories above: ls -ld shows them"}
	}
	return hints
}
