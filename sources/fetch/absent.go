package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// An AbsentError is a 404 answer that means that the requested item does not exist. Callers of this package create it,
// because the meaning of a 404 depends on the request.
type AbsentError struct {
	Answer *StatusError
	Err    error // the item that does not exist; matches [sources.ErrNotFound]
}

// Error leaves out the URL that answered, because [Answering] adds it to the name of the source.
func (e *AbsentError) Error() string { return e.Err.Error() }
func (e *AbsentError) Unwrap() error { return e.Err }

// Absent returns an AbsentError if err is a 404 answer, otherwise err.
func Absent(err error) error {
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return &AbsentError{status, sources.ErrNotFound}
	}
	return err
}

// Answering adds the URL that answered and the server's message to the name of a source, if err is an AbsentError.
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

// At adds a URL to the name of a source. If the name ends with the beginning of the URL, the URL replaces that
// beginning. The remark follows the URL.
func At(source, url, remark string) string {
	if i := strings.LastIndexByte(source, ' '); strings.HasPrefix(url, source[i+1:]) {
		return source[:i+1] + url + remark
	}
	return fmt.Sprintf("%s (%s%s)", source, url, remark)
}
