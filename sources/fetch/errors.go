package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
)

var (
	// ErrOffline matches the failure of every request of an offline client.
	ErrOffline = errors.New("not requested: --offline")

	// ErrUnauthorized matches a StatusError of 401 or 403.
	ErrUnauthorized = errors.New("unauthorized")

	// ErrStalled matches a server that was silent, or as good as, for too long.
	ErrStalled = errors.New("stalled")

	// ErrTooLarge matches an answer that is larger than it may be.
	ErrTooLarge = errors.New("too large")
)

// The two ways to stall.
var (
	errSilent    = fmt.Errorf("%w: no answer", ErrStalled)
	errTooLittle = fmt.Errorf("%w: too little data", ErrStalled)
)

// An Error is a request that did not succeed. It names the URL.
type Error struct {
	URL   string // without user information and query
	Tries int    // 0 if the request was not even tried
	Took  time.Duration
	Err   error // of the last try
}

func (e *Error) Error() string {
	text := e.URL + ": " + e.Err.Error()
	if down := unreachable(e.Err); down != nil {
		text = down.Error()
	}
	if e.Tries < 2 {
		return text
	}
	return fmt.Sprintf("%s (%d tries in %s)", text, e.Tries, round(e.Took))
}

func (e *Error) Unwrap() error { return e.Err }

// round leaves of d what people read of it.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// A StatusError is an answer other than the one asked for. It does not say of
// itself that something does not exist: what a 404 means is for those to say
// who know what was asked.
type StatusError struct {
	Code        int
	URL         string // that answered, without user information and query
	Credentials bool   // whether credentials were sent
	Said        string // the server's own message; empty if it has none
	ObjectStore bool   // whether an object store answered, which hides what doesn't exist

	signed bool // whether the URL was good for a while only

	known bool          // whether the host has asked for the wait before
	after time.Duration // that the server asks us to wait; 0 if it does not
}

// Error leaves out the URL, which an Error names already.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code))
	if http.StatusText(e.Code) == "" {
		text = fmt.Sprintf("status %d", e.Code)
	}
	if e.Said != "" {
		text += fmt.Sprintf(" (%q)", e.Said)
	}
	if e.after > maxWait {
		text += fmt.Sprintf(", retry after %s", round(e.after))
	}
	return text
}

// Is reports whether e is of the kind that target stands for.
func (e *StatusError) Is(target error) bool {
	return target == ErrUnauthorized && (e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden)
}

// expired reports whether the answer may be to a URL that was good until a while ago.
func (e *StatusError) expired() bool {
	switch e.Code {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusGone:
		return true
	}
	return false
}

// temporary reports whether the answer may be another one later.
func (e *StatusError) temporary() bool {
	switch e.Code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return e.after <= maxWait
	case http.StatusNotImplemented:
		return false
	}
	return e.Code >= 500 && e.after <= maxWait
}

// A broken connection is one that may be whole the next time.
type broken struct{ error }

// Error is short, whatever the server has sent: nonsense is quoted in full by
// those who come upon it.
func (b broken) Error() string { return Printable(b.error.Error()) }

func (b broken) Unwrap() error { return b.error }

// A redirected error came from another URL than the one asked.
type redirected struct {
	to   string
	host string
	err  error
}

func (e *redirected) Error() string { return "redirected to " + e.to + ": " + e.err.Error() }
func (e *redirected) Unwrap() error { return e.err }

// temporary reports whether trying again may help.
func temporary(err error) bool {
	if proxy, ok := errors.AsType[*ProxyError](err); ok {
		return (&StatusError{Code: proxy.Code}).temporary()
	}
	var status *StatusError
	if errors.As(err, &status) {
		return status.temporary()
	}
	var b broken
	return errors.As(err, &b)
}

// ended is why a request with this context ended in err: the watch's reason if
// it was the watch that ended it.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrStalled) {
		return broken{cause}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Printable is text from a server as it may reach a terminal: not too long, and
// without control characters other than line breaks.
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

// QuoteSome quotes the first few of many texts from a server, and says how many
// more there are.
func QuoteSome(texts []string) string {
	var quoted []string
	for _, text := range texts[:min(len(texts), maxQuoted)] {
		quoted = append(quoted, fmt.Sprintf("%.40q", text))
	}
	if more := len(texts) - maxQuoted; more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(quoted, ", ")
}
