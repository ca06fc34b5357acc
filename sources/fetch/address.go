package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/idna"

	"github.com/larder-cli/larder/sources"
)

// Redact returns the URL without user information, query and fragment, which may hold secrets. The result may be shown
// and recorded.
func Redact(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "(invalid URL)"
	}
	return bare(u)
}

func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// Resolve resolves ref relative to base and returns an http or https URL. It refuses an empty ref, because it would
// resolve to base itself.
func Resolve(base *url.URL, ref string) (*url.URL, error) {
	if strings.TrimSpace(ref) == "" {
		return nil, errors.New("empty URL")
	}
	if len(ref) > maxURL {
		return nil, fmt.Errorf("URL of %d bytes is too long", len(ref))
	}
	u, err := url.Parse(ref)
	if err != nil {
		return nil, errors.New("invalid URL") // the cause would show part of the URL
	}
	u = base.ResolveReference(u)
	u.Fragment, u.RawFragment = "", ""
	u.RawQuery = strings.ReplaceAll(u.RawQuery, " ", "%20") // in which some servers leave spaces
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		err = fmt.Errorf("unsupported URL scheme %q", u.Scheme)
	case u.Hostname() == "":
		err = errors.New("URL without a host")
	case len(u.Host) > maxHost:
		err = errors.New("URL with a host name that is too long")
	}
	return u, err
}

// begin parses a URL and returns an error if it must not be fetched.
func (c *Client) begin(rawURL string) (*url.URL, error) {
	u, err := Resolve(&url.URL{}, rawURL)
	if err == nil && c.opts.Offline {
		err = sources.ErrOffline
	}
	if err != nil {
		return nil, &Error{URL: Redact(rawURL), Err: err}
	}
	return u, nil
}

// hostPort returns the canonical host and port of u. It is equal for two URLs if the same server answers both.
func hostPort(u *url.URL) string {
	name, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil {
		name = u.Hostname()
	}
	port := "443"
	if u.Scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(strings.ToLower(name), cmp.Or(u.Port(), port))
}

// sameOrigin reports whether credentials for a may be sent to b.
func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && hostPort(a) == hostPort(b) }
