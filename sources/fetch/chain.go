package fetch

import (
	"context"
	"net/http"
)

// A link is a round tripper of the chain that requests pass through. It does one thing, and leaves the rest to the
// next.
type link func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (l link) RoundTrip(req *http.Request) (*http.Response, error) { return l(req) }

// chain returns the round tripper for requests of attempts, over the transports. Each link is described where it is.
func (c *Client) chain(transports http.RoundTripper) http.RoundTripper {
	return c.limiting(c.pausing(c.decoding(c.timing(c.authenticating(c.explaining(transports))))))
}

// An attempt is one try of a Document, a Download or a request of a library. It is in the context of its requests, in
// which the links find it.
type attempt struct {
	*watch
	tries *tries
	limit int64 // of the size of answers in bytes; 0 means none
	slot  *slot // that the requests need at each host; nil if they need none
}

// attemptKey is the key of the *attempt in a context.
type attemptKey struct{}

// attempt returns a context for the requests of an attempt. The caller must call stop.
func (c *Client) attempt(ctx context.Context, t *tries) (context.Context, *attempt) {
	a := &attempt{tries: t}
	ctx, a.watch = newWatch(ctx, c.opts.Timeout)
	return context.WithValue(ctx, attemptKey{}, a), a
}

// attemptOf returns the attempt that a request belongs to.
func attemptOf(req *http.Request) *attempt { return req.Context().Value(attemptKey{}).(*attempt) }
