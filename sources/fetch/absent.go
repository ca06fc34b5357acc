package fetch

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/larder-cli/larder/sources"
)

// An AbsentError is an answer 404 where that means that what was requested does not
// exist. It is for the packages that know what they requested to make.
type AbsentError struct {
	Answer *StatusError
	Err    error // what does not exist; matches [sources.ErrNotFound]
}

// Error leaves out who answered, which [Answering] adds to the name of the source.
func (e *AbsentError) Error() string { return e.Err.Error() }
func (e *AbsentError) Unwrap() error { return e.Err }

// Absent makes an AbsentError of err if that is an answer 404. Otherwise it returns err.
func Absent(err error) error {
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return &AbsentError{status, sources.ErrNotFound}
	}
	return err
}

// Answering adds to the name of a source the URL that gave the answer and the server's
// message, if err is an AbsentError.
func Answering(source string, err error) string {
	var absent *AbsentError
	switch {
	case !errors.As(err, &absent):
		return source
	case absent.Answer.Said == "":
		return fmt.Sprintf("%s (%s)", source, absent.Answer.URL)
	default:
		return fmt.Sprintf("%s (%s: %q)", source, absent.Answer.URL, absent.Answer.Said)
	}
}
