package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/larder-cli/larder/sources"
)

var (
	// ErrUnauthorized matches a StatusError of 401 or 403.
	ErrUnauthorized = errors.New("unauthorized")

	// ErrStalled matches the error for a server that sent nothing, or almost nothing, for too long.
	ErrStalled = errors.New("stalled")

	// ErrTooLarge matches the error for an answer that exceeds its size limit.
	ErrTooLarge = errors.New("too large")
)

// The ways to stall.
var (
	errNoAnswer  = fmt.Errorf("%w: no answer", ErrStalled)
	errIdle      = fmt.Errorf("%w: no data", ErrStalled)
	errTooLittle = fmt.Errorf("%w: too little data", ErrStalled)
)

// An Error is a failed request. It names the URL.
type Error struct {
	URL   string // without user information and query
	Tries int    // 0 if no request was sent
	Took  time.Duration
	Err   error // the error of the last try

	At *url.URL // that failed, after redirects; nil if no request was sent
}

func (e *Error) Error() string {
	text := e.URL + ": " + e.Err.Error()
	if down := unreachable(e.Err); down != nil {
		text = down.Error()
	} else if e.At != nil && bare(e.At) != e.URL {
		text = e.URL + ": redirected to " + bare(e.At) + ": " + e.Err.Error()
	}
	if e.Tries < 2 {
		return text
	}
	return fmt.Sprintf("%s (%d tries in %s)", text, e.Tries, round(e.Took))
}

func (e *Error) Unwrap() error { return e.Err }

// Cause returns what is wrong with the host, which other requests to it share: the error without the URL and the tries.
// It is empty if only this request may have failed.
func (e *Error) Cause() string {
	if down := unreachable(e.Err); down != nil {
		return down.Error()
	}
	status, answered := errors.AsType[*StatusError](e.Err)
	unauthorized := errors.Is(e.Err, ErrUnauthorized) && !(answered && status.ObjectStore)
	shared := temporary(e.Err) || has[*tls.CertificateVerificationError](e.Err) || unauthorized
	if e.At == nil || !shared {
		return ""
	}
	return e.At.Host + ": " + e.Err.Error()
}

// round rounds d for messages.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// A StatusError is an answer with an unexpected status. A 404 alone does not mean that something does not exist; the
// caller decides that, because it depends on the request.
type StatusError struct {
	Code        int
	URL         string   // the URL that answered, without user information and query
	Credentials bool     // whether credentials were sent
	Said        string   // the server's message; empty if there is none
	ObjectStore bool     // whether an object store answered; those answer 403 for missing objects
	Codes       []string // of the errors in the message of an OCI registry or object store, such as NAME_UNKNOWN

	Request *http.Request // that was refused; may hold secrets

	after time.Duration // the wait that the server requested; 0 if it requested none
}

// Error leaves out the URL, because an Error already names it.
func (e *StatusError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code)))
	if e.Said != "" {
		text += fmt.Sprintf(" (%q)", e.Said)
	}
	if e.after > maxWait {
		text += fmt.Sprintf(", retry after %s", round(e.after))
	}
	return text
}

// Is reports whether e is of the kind of target.
func (e *StatusError) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden
	case sources.ErrRefused:
		return e.Code == http.StatusUnavailableForLegalReasons || e.Code == http.StatusForbidden && !e.ObjectStore
	}
	return false
}

// expired reports whether the status may be the answer to an expired URL.
func (e *StatusError) expired() bool {
	return errors.Is(e, ErrUnauthorized) || e.Code == http.StatusBadRequest || e.Code == http.StatusGone
}

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
	if status, ok := errors.AsType[*StatusError](err); ok && status.Code == http.StatusNotFound {
		return &AbsentError{status, sources.ErrNotFound}
	}
	return err
}

// Answering adds the URL that answered and the server's message to the name of a source, if err is an AbsentError.
func Answering(source string, err error) string {
	absent, ok := errors.AsType[*AbsentError](err)
	switch {
	case !ok:
		return source
	case absent.Answer.Said == "":
		return At(source, absent.Answer.URL, "")
	}
	return At(source, absent.Answer.URL, fmt.Sprintf(": %q", absent.Answer.Said))
}

// At adds a URL to the name of a source. If the name ends with the beginning of the URL, the URL replaces that
// beginning. The remark follows the URL.
func At(source, url, remark string) string {
	if i := strings.LastIndexByte(source, ' '); strings.HasPrefix(url, source[i+1:]) {
		return source[:i+1] + url + remark
	}
	return fmt.Sprintf("%s (%s%s)", source, url, remark)
}

// has reports whether err is or wraps an error of a type.
func has[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// A broken error is a failure of a connection that may work on the next try.
type broken struct{ error }

// Error limits the length of the message, because some errors quote everything that the server sent.
func (b broken) Error() string { return Printable(b.error.Error()) }

func (b broken) Unwrap() error { return b.error }

// A worded error replaces the text of the error that it wraps.
type worded struct {
	text string
	error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.error }

// Quoting returns an error of a library, which may quote what a server sent, with a text that can be shown: without the
// queries of URLs, and otherwise as [Printable] text.
func Quoting(err error) error {
	return &worded{Printable(withoutQueries(err.Error())), err}
}

// ended returns the reason why a request with this context failed with err. That is the watch's reason if the watch
// ended the request.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrStalled) {
		return broken{cause}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Printable returns text from a server in a form that is safe for a terminal: shortened, and without control characters
// other than line breaks.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + " …"
	}
	return s
}
