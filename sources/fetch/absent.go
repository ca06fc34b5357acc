package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

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
	if !errors.As(err, &absent) {
		return source
	}
	said := ""
	if absent.Answer.Said != "" {
		said = fmt.Sprintf(": %q", absent.Answer.Said)
	}
	return At(source, absent.Answer.URL, said)
}

// At adds a URL to the name of a source. If the name ends with the beginning of the URL,
// the URL takes the place of that. The remark follows the URL.
func At(source, url, remark string) string {
	if i := strings.LastIndexByte(source, ' '); strings.HasPrefix(url, source[i+1:]) {
		return source[:i+1] + url + remark
	}
	return fmt.Sprintf("%s (%s%s)", source, url, remark)
}
