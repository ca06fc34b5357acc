package fetch

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// An answer is the response to a request, after redirects.
type answer struct {
	client *Client
	resp   *http.Response
	at     *url.URL    // the URL that answered
	header http.Header // of the last request, as it may be sent again
	until  int64       // where in an archive its beginning ends; 0 for another answer
}

// follow sends a GET request of an attempt to its URL, in which each redirect is a request of its own. The Request says
// which are allowed. The Authorization in the header and the user information of a URL follow redirects within their
// origin only. The caller must close the body.
func (c *Client) follow(try *attempt, header http.Header, r Request) (*answer, error) {
	first, most := try.at, cmp.Or(r.Redirects, defaultRedirects)
	header = header.Clone()
	for hop := 0; ; hop++ {
		at := try.at
		req := &http.Request{Method: http.MethodGet, URL: at, Host: at.Host, Header: header.Clone()}
		resp, err := c.chain.RoundTrip(req.WithContext(try.ctx))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(moved, resp.StatusCode) {
			return &answer{client: c, resp: resp, at: at, header: header}, nil
		}
		drain(resp, io.Discard) // so that the connection can be used again
		next, err := target(at, resp, r.Plain)
		switch {
		case err != nil:
			return nil, err
		case r.SameHost && !sameOrigin(first, next):
			return nil, fmt.Errorf("redirect to another host refused: %s", bare(next))
		case hop == most:
			return nil, fmt.Errorf("more than %d redirects", most)
		case sameOrigin(at, next):
			next.User = cmp.Or(next.User, at.User)
		default:
			header.Del("Authorization")
		}
		if at.Scheme == "https" && next.Scheme != "https" {
			next.User = nil
		}
		try.at = next
	}
}

// moved are the statuses of redirects.
var moved = []int{
	http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
	http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
}

// target returns the target of a redirect. A redirect from https to http is followed only if plain is set. Otherwise
// the same URL is requested over https: behind a proxy that terminates TLS, many servers redirect to http by mistake.
func target(from *url.URL, resp *http.Response, plain bool) (*url.URL, error) {
	to, err := Resolve(from, resp.Header.Get("Location"))
	if err != nil {
		return nil, fmt.Errorf("redirect: %w", err)
	}
	if plain || from.Scheme != "https" || to.Scheme == "https" {
		return to, nil
	}
	secure := *to
	secure.Scheme = "https"
	if to.Port() == "80" {
		secure.Host = strings.TrimSuffix(to.Host, ":80")
	}
	if bare(&secure) == bare(from) && secure.RawQuery == from.RawQuery {
		return nil, sources.WithHint(fmt.Errorf("redirect from https to %s refused", bare(to)),
			"if a proxy in front of %s ends TLS, have it send X-Forwarded-Proto: https", from.Host)
	}
	return &secure, nil
}

// drain copies the beginning of a body to a writer, and closes the body. It does not wait long, because nothing depends
// on the result.
func drain(resp *http.Response, to io.Writer) {
	late := time.AfterFunc(maxDrain, func() { resp.Body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(to, resp.Body, maxDrained)
	resp.Body.Close()
}
