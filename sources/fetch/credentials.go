package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// HostOptions apply to a single host and port, and only over https. After a redirect to another host, the options of
// that host apply instead.
type HostOptions struct {
	Authorities  []*x509.Certificate // certificate authorities for the host, in addition to the system's
	Certificates []tls.Certificate   // client certificates, if the host requests one
	Headers      map[string]string   // added to every request that does not have them already

	// TokenForArchives sends the host's token with every request to it, including those for archives and signed
	// checksums.
	TokenForArchives bool
}

// hostOptions returns the options for the host of u.
func (c *Client) hostOptions(u *url.URL) HostOptions {
	if u.Scheme != "https" {
		return HostOptions{}
	}
	h := c.host(u)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.options
}

// An Authorizer authenticates the requests for some URLs, by a protocol of its own: the requests can't have their
// credentials before the server has answered, or are signed.
type Authorizer interface {
	// Send sends a request through next, and more requests if the server requires them. It must not send credentials to
	// other hosts than those that they are for, and follows no redirects of the request itself. Its errors show no URL.
	Send(req *http.Request, next http.RoundTripper) (*http.Response, error)

	// Hint is what to do about a request that the server refused. It may be empty.
	Hint(refusal *StatusError) string
}

// Authorize makes the client send the requests for all URLs that begin with base, also after redirects, through a. A
// later call for the same base replaces a. Of several bases, the longest applies.
func (c *Client) Authorize(base string, a Authorizer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.authorizers[base] = a
}

// authorizer returns the authorizer for a URL, or nil if there is none.
func (c *Client) authorizer(u *url.URL) Authorizer {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest := ""
	for base := range c.authorizers {
		if strings.HasPrefix(u.String(), base) && len(base) > len(longest) {
			longest = base
		}
	}
	return c.authorizers[longest]
}

// authenticating is the link that adds what is configured for the URL of a request: headers, the user information of
// the URL, and what an Authorizer adds. What a request has already takes precedence. Its Authorization is for its
// origin, and [Client.follow] removes it when a redirect leaves that.
func (c *Client) authenticating(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	u := req.URL
	req = req.Clone(req.Context())
	if req.Header.Get("Authorization") == "" && u.User != nil {
		password, _ := u.User.Password()
		req.SetBasicAuth(u.User.Username(), password)
	}
	req.URL.User = nil
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", c.opts.UserAgent)
	}
	for name, value := range c.hostOptions(u).Headers {
		if req.Header.Get(name) == "" {
			req.Header.Set(name, value)
		}
	}
	if by := c.authorizer(u); by != nil {
		return by.Send(req, next)
	}
	return next.RoundTrip(req)
}

// header returns the headers of the requests for a document or an archive. It adds credentials over https only, and
// only if no [Authorizer] does: a token if it is wanted, or is for archives too, otherwise those of the netrc file for
// an archive. The user information of an archive's URL precedes both.
func (c *Client) header(ctx context.Context, u *url.URL, r Request, archive bool) (http.Header, error) {
	header := http.Header{}
	if r.Accept != "" {
		header.Set("Accept", r.Accept)
	}
	if c.authorizer(u) != nil || u.Scheme != "https" || archive && u.User != nil {
		return header, nil
	}
	of := cmp.Or(r.TokenOf, c.host(u).name)
	if (r.Credentials || c.hostOptions(u).TokenForArchives) && c.opts.Token != nil && of != "" {
		token, ok, err := c.opts.Token(ctx, of)
		switch {
		case err != nil:
			return nil, err // it already names the credentials
		case ok && !httpguts.ValidHeaderFieldValue(token):
			return nil, errors.New("the token contains characters that cannot be sent")
		case ok:
			header.Set("Authorization", "Bearer "+token)
			return header, nil
		}
	}
	if archive && c.opts.Netrc != nil {
		if user, password, ok := c.opts.Netrc(u.Host); ok {
			(&http.Request{Header: header}).SetBasicAuth(user, password)
		}
	}
	return header, nil
}
