package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
)

// ErrBusy is the error of a request that would take too much beside others.
var ErrBusy = errors.New("too many requests are waiting")

// Errors of an [Upstream] and of [Rules].
var (
	ErrForbidden = errors.New("not allowed")                      // by the rules
	ErrTooLarge  = errors.New("larger than the server may store") // an archive
)

var (
	errMethod       = errors.New("only GET and HEAD are served")
	errLoop         = errors.New("this server is its own upstream")
	errNoToken      = errors.New("a token is required")
	errUnknownToken = errors.New("the token is not one of this server's")
	errCondition    = errors.New("documents have weak entity tags, so they match no If-Match but *")
	errExpired      = errors.New("the URL has expired, or was changed: request the version's document again")
	errOutdated     = errors.New("it does not answer now, and what is known of it lacks this")
)

// An upstreamError is the failure of upstream.
type upstreamError struct{ err error }

func (e *upstreamError) Error() string { return "upstream: " + e.err.Error() }
func (e *upstreamError) Unwrap() error { return e.err }

// ofUpstream marks an error as one of upstream, unless it is an answer, or one of this machine.
func ofUpstream(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil, errors.Is(err, sources.ErrNotFound), errors.Is(err, ErrForbidden), errors.Is(err, ErrTooLarge), disk.IsFull(err):
		return err
	case errors.As(err, &path), errors.As(err, &link):
		return &unusableError{err, "the server can't use a file or directory that it needs to fetch this; what it has is still served"}
	}
	return &upstreamError{err}
}

// An otherHostError is a request for a registry that this server is not.
type otherHostError struct{ asked, is sources.Host }

func (e *otherHostError) Error() string {
	return fmt.Sprintf("this server is the registry of %s, and the request is for %s", e.is, e.asked)
}
func (e *otherHostError) Unwrap() error { return sources.ErrNotFound }

// An unusableError is the error of a server that can't use its mirror.
type unusableError struct {
	err  error
	told string // to clients
}

func (e *unusableError) Error() string { return e.err.Error() }
func (e *unusableError) Unwrap() error { return e.err }

// statusOf returns the status of an answer with an error. Only what certainly doesn't exist is "not found", because
// engines then search elsewhere.
func statusOf(err error) int {
	var timeout net.Error
	var unusable *unusableError
	var upstream *upstreamError
	switch {
	case errors.Is(err, errMethod):
		return http.StatusMethodNotAllowed
	case errors.Is(err, errCondition):
		return http.StatusPreconditionFailed
	case errors.Is(err, errNoToken), errors.Is(err, errUnknownToken):
		return http.StatusUnauthorized
	case errors.Is(err, errExpired):
		return http.StatusForbidden
	case errors.Is(err, ErrForbidden): // of 403, engines say that the token was refused
		return http.StatusUnavailableForLegalReasons
	case errors.Is(err, errLoop):
		return http.StatusLoopDetected
	case errors.Is(err, sources.ErrNotFound):
		return http.StatusNotFound
	case disk.IsFull(err), errors.Is(err, ErrTooLarge):
		return http.StatusInsufficientStorage
	case errors.Is(err, ErrBusy), errors.As(err, &unusable), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	case errors.As(err, &upstream):
		if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
			return http.StatusGatewayTimeout
		}
		return http.StatusBadGateway
	}
	return http.StatusInternalServerError
}

// fail answers with an error, and nothing else does except [http.ServeContent]. If the answer has begun, it ends the
// connection, so that the client notices.
func (x *exchange) fail(err error) {
	x.served.Err = err
	if x.w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	status := statusOf(err)
	h := x.w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Cache-Control", "Content-Disposition"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="larder"`)
		if x.kind == page || x.kind == metrics { // a browser asks for a password, which is the token
			h.Set("WWW-Authenticate", `Basic realm="larder"`)
		}
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "5")
	}
	text, jsonErr := sources.JSON(struct {
		Errors []string `json:"errors"`
	}{[]string{x.told(status, err)}})
	if jsonErr != nil {
		text = nil
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(text) // the client may be gone
	}
}

// told returns what a client learns about an error: constants, and the names in its own request. The log has the rest,
// such as paths, the policy, and addresses of upstream.
func (x *exchange) told(status int, err error) string {
	var unusable *unusableError
	var asked *otherHostError
	for _, known := range []error{errMethod, errCondition, errExpired, errLoop, ErrBusy, errOutdated, errLate} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	switch {
	case errors.As(err, &unusable):
		return unusable.told
	case errors.As(err, &asked):
		return fmt.Sprintf("this server is not the registry of %s", asked.asked)
	case errors.Is(err, errUnsigned):
		return strings.Join(append([]string{errUnsigned.Error()}, sources.Hints(errUnsigned)...), "; ")
	case errors.Is(err, ErrTooLarge):
		return "the archive is larger than the server may store; a larger --max-size of the server would allow it"
	case errors.Is(err, context.Canceled):
		return "the server is shutting down"
	}
	switch status {
	case http.StatusUnauthorized:
		reason := errUnknownToken
		if errors.Is(err, errNoToken) {
			reason = errNoToken
		}
		host, err := x.host()
		if err != nil {
			return reason.Error()
		}
		return fmt.Sprintf("%v; clients send the token that their CLI configuration has in credentials %q", reason, host)
	case http.StatusUnavailableForLegalReasons:
		return fmt.Sprintf("the policy or the configuration of the server does not allow %s; its log has the reason", x.about())
	case http.StatusNotFound:
		return sources.ErrNotFound.Error()
	case http.StatusInsufficientStorage:
		return "the disk of the server is full, so it fetches nothing; what it has is still served"
	case http.StatusGatewayTimeout:
		return "upstream was too slow; the log of the server has the details"
	case http.StatusBadGateway:
		return toldOfUpstream(err)
	}
	return "the server can't read its mirror"
}

// toldOfUpstream returns what a client learns about a failure of upstream: the status, if that was one.
func toldOfUpstream(err error) string {
	text := "upstream failed, or sent something that isn't what was signed"
	if _, paused := errors.AsType[*fetch.PausedError](err); paused {
		text = "upstream is overloaded or can't be reached"
	} else if status, ok := errors.AsType[*fetch.StatusError](err); ok {
		text = fmt.Sprintf("upstream answered with status %d", status.Code)
		if status.Code == http.StatusLoopDetected {
			text += ": " + errLoop.Error()
		}
	}
	return text + "; the log of the server has the details"
}

// about returns the provider and the version in the URL.
func (x *exchange) about() string {
	if x.id.Version == (sources.Version{}) {
		return x.id.Provider.String()
	}
	return x.id.Release().String()
}

// ignoreGone returns nil for the error of a client that has closed its connection.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
