package fetch

import (
	"net/http"
	"net/url"
	"strings"
)

// An Authorizer authenticates the requests for some URLs, by a protocol of its own: the requests can't have their
// credentials before the server has answered, or are signed.
type Authorizer interface {
	// Send sends a request through next, and more requests if the server requires them. It must not send credentials
	// to other hosts than those that they are for, and follows no redirects of the request itself.
	Send(req *http.Request, next http.RoundTripper) (*http.Response, error)

	// Hint is what to do about a request that the server refused. It may be empty.
	Hint(refusal *StatusError) string
}

// Authorize makes the client send the requests for all URLs that begin with base, also after redirects, through a.
// A later call for the same base replaces a.
func (c *Client) Authorize(base string, a Authorizer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.authorizers[base] = a
}

// authorizer returns the authorizer for a URL, or nil if there is none.
func (c *Client) authorizer(u *url.URL) (found Authorizer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u == nil || len(c.authorizers) == 0 {
		return nil
	}
	text, longest := u.String(), 0
	for base, a := range c.authorizers {
		if len(base) > longest && strings.HasPrefix(text, base) {
			found, longest = a, len(base)
		}
	}
	return found
}

// authorizing is a transport with an authorizer.
type authorizing struct {
	http.RoundTripper
	by Authorizer
}

func (a authorizing) RoundTrip(req *http.Request) (*http.Response, error) {
	return a.by.Send(req, a.RoundTripper)
}

// transportFor returns the transport for requests to u, with the trace, and with the authorizer, if there is one.
func (c *Client) transportFor(shared http.RoundTripper, u *url.URL) http.RoundTripper {
	var t http.RoundTripper = tracing{c.transport(shared, u)}
	if a := c.authorizer(u); a != nil {
		return authorizing{t, a}
	}
	return t
}

// A CredentialsError is the failure of an [Authorizer] to find credentials, or to get a token for them. The request
// isn't sent again.
type CredentialsError struct{ Err error }

func (e *CredentialsError) Error() string { return e.Err.Error() }

func (e *CredentialsError) Unwrap() error { return e.Err }

// A TokenError is the failure of an [Authorizer] to reach the server that issues tokens.
type TokenError struct {
	URL *url.URL
	Err error // of the transport
}

func (e *TokenError) Error() string { return bare(e.URL) + ": " + e.Err.Error() }

func (e *TokenError) Unwrap() error { return e.Err }
