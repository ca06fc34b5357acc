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

	"github.com/larder-cli/larder/sources"
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
// later call for the same base replaces a.
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

// authenticating is the link that adds what is configured for the URL of a request: headers of its host, the user
// information of the URL, and what an Authorizer adds. The Authorization that a request has already takes precedence.
// It is for the origin of the request, and [Client.follow] removes it when a redirect leaves that.
func (c *Client) authenticating(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	u := req.URL
	req = req.Clone(req.Context())
	if req.Header.Get("Authorization") == "" && u.User != nil {
		password, _ := u.User.Password()
		req.SetBasicAuth(u.User.Username(), password)
	}
	req.URL.User = nil
	for name, value := range c.hostOptions(u).Headers {
		if req.Header.Get(name) == "" {
			req.Header.Set(name, value)
		}
	}
	by := c.authorizer(u)
	if by == nil {
		return next.RoundTrip(req)
	}
	return by.Send(req, next)
}

// archiveCredentials adds the credentials for an archive, if an [Authorizer] doesn't: the host's token if it is for
// archives too, otherwise those of the netrc file. They are sent only over https, and if the URL contains none.
func (c *Client) archiveCredentials(ctx context.Context, header http.Header, u *url.URL) error {
	if c.authorizer(u) != nil || u.User != nil || u.Scheme != "https" {
		return nil
	}
	if c.hostOptions(u).TokenForArchives {
		if err := c.setToken(ctx, header, u, ""); err != nil || header.Get("Authorization") != "" {
			return err
		}
	}
	if c.opts.Netrc != nil {
		if user, password, ok := c.opts.Netrc(u.Host); ok {
			(&http.Request{Header: header}).SetBasicAuth(user, password)
		}
	}
	return nil
}

// setToken adds the bearer token configured for a host, or for the host of u if that is empty. It sends no token
// without TLS.
func (c *Client) setToken(ctx context.Context, header http.Header, u *url.URL, of sources.Host) error {
	of = cmp.Or(of, c.host(u).name)
	if u.Scheme != "https" || c.opts.Token == nil || of == "" { // an invalid host name cannot have credentials
		return nil
	}
	token, ok, err := c.opts.Token(ctx, of)
	if err != nil || !ok {
		return err // it already names the credentials
	}
	if !httpguts.ValidHeaderFieldValue(token) {
		return errors.New("the token contains characters that cannot be sent")
	}
	header.Set("Authorization", "Bearer "+token)
	return nil
}
