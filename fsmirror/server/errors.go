package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
)

// A refusal is an error with its answer.
type refusal struct {
	status int
	told   string // to clients
	err    error  // for the log
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// refuse returns a refusal that tells clients and the log the same.
func refuse(status int, told string) error { return &refusal{status, told, errors.New(told)} }

// Errors of an [Upstream], of [Rules] and of a page.
var (
	ErrForbidden = errors.New("not allowed")                      // by the rules
	ErrTooLarge  = errors.New("larger than the server may store") // an archive

	// ErrUnindexed is the error of an archive that is verified and stored, but not in the index of the mirror. Clients
	// that are receiving it get all of it.
	ErrUnindexed = errors.New("the index of the mirror could not be written")

	// ErrBusy is the error of a request that would take too much beside others.
	ErrBusy = refuse(http.StatusServiceUnavailable, "too many requests are waiting")
)

var (
	errMethod       = refuse(http.StatusMethodNotAllowed, "only GET and HEAD are served")
	errLoop         = refuse(http.StatusLoopDetected, "this server is its own upstream")
	errNoToken      = refuse(http.StatusUnauthorized, "a token is required")
	errUnknownToken = refuse(http.StatusUnauthorized, "the token is not one of this server's")
	errExpired      = refuse(http.StatusForbidden,
		"the URL has expired, or was changed: request the version's document again")
	errOutdated = refuse(http.StatusBadGateway, "upstream does not answer now, and what is known of it lacks this")
)

const (
	seeLog      = "; the log of the server has the details"
	stillServed = "; what it has is still served"
)

// NoSpace reports whether an error means that there is no space for an archive.
func NoSpace(err error) bool { return disk.IsFull(err) || errors.Is(err, ErrTooLarge) }

// ofUpstream returns the error of a request that upstream failed to serve. Answers of upstream, and errors of this
// machine, stay what they are.
func ofUpstream(err error) error {
	_, refused := errors.AsType[*refusal](err)
	_, inPath := errors.AsType[*fs.PathError](err)
	_, inLink := errors.AsType[*os.LinkError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	_, paused := errors.AsType[*fetch.PausedError](err)
	answer, answered := errors.AsType[*fetch.StatusError](err)
	status, told := http.StatusBadGateway, "upstream failed, or sent something that isn't what was signed"
	switch {
	case err == nil, refused, NoSpace(err), errors.Is(err, context.Canceled),
		errors.Is(err, sources.ErrNotFound), errors.Is(err, ErrForbidden):
		return err
	case inPath, inLink:
		return unusable(err, "the server can't use a file or directory that it needs to fetch this"+stillServed)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, fetch.ErrStalled), isNet && timeout.Timeout():
		status, told = http.StatusGatewayTimeout, "upstream was too slow"
	case paused:
		told = "upstream is overloaded or can't be reached"
	case answered:
		told = fmt.Sprintf("upstream answered with status %d", answer.Code)
		if answer.Code == http.StatusLoopDetected {
			told += ": " + errLoop.Error()
		}
	}
	return &refusal{status, told + seeLog, fmt.Errorf("upstream: %w", err)}
}

// unusable returns the error of a server that can't use its mirror.
func unusable(err error, told string) error {
	return &refusal{http.StatusServiceUnavailable, told, err}
}

// fail answers with an error, and nothing else does except [http.ServeContent].
func (x *exchange) fail(err error) {
	x.served.Fetched = false
	status, told := x.reply(err)
	h := x.w.Header()
	for _, name := range []string{
		"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Cache-Control", "Content-Disposition",
	} {
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
	text, _ := sources.JSON(map[string][]string{"errors": {told}}) // which always succeeds
	h.Set("Content-Length", strconv.Itoa(len(text)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(text) // the client may be gone
	}
}

// reply returns the status of an answer with an error, and what the client learns: constants, and the names in its own
// request. The log has the rest, such as paths, the policy, and addresses of upstream. Only what certainly doesn't
// exist is "not found", because engines then search elsewhere.
func (x *exchange) reply(err error) (status int, told string) {
	refused, known := errors.AsType[*refusal](err)
	switch {
	case known:
		if refused.status == http.StatusUnauthorized && x.host != "" {
			const form = "%s; clients send the token that their CLI configuration has in credentials %q"
			return refused.status, fmt.Sprintf(form, refused.told, x.host)
		}
		return refused.status, refused.told
	case errors.Is(err, ErrForbidden): // of 403, engines say that the token was refused
		about := x.id.Provider.String()
		if x.id.Version != (sources.Version{}) {
			about = x.id.Release().String()
		}
		const form = "the policy or the configuration of the server does not allow %s; its log has the reason"
		return http.StatusUnavailableForLegalReasons, fmt.Sprintf(form, about)
	case errors.Is(err, sources.ErrNotFound):
		return http.StatusNotFound, sources.ErrNotFound.Error()
	case errors.Is(err, ErrTooLarge):
		return http.StatusInsufficientStorage,
			"the archive is larger than the server may store; a larger --max-size of the server would allow it"
	case disk.IsFull(err):
		return http.StatusInsufficientStorage, "the disk of the server is full, so it fetches nothing" + stillServed
	case errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, "the server is shutting down"
	}
	return http.StatusInternalServerError, "the server can't read its mirror"
}
