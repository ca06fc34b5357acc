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

// redirects are the redirects that are followed.
type redirects struct {
	most     int
	sameHost bool // redirects to other hosts are errors
	plain    bool // from https to http too, without credentials
}

// An answer is the response to a request, after redirects.
type answer struct {
	client *Client
	resp   *http.Response
	asked  *url.URL    // the requested URL
	at     *url.URL    // the URL that answered
	header http.Header // of the last request, as it may be sent again
}

// fail adds the URL that answered to an error about the answer.
func (a *answer) fail(err error) error { return elsewhere(a.asked, a.at, err) }

// follow sends a GET request of an attempt once, in which each redirect is a request of its own. The Authorization in
// the header and the user information of a URL follow redirects within their origin only. The caller must close the
// body.
func (c *Client) follow(try *attempt, u *url.URL, header http.Header, rules redirects) (_ *answer, err error) {
	a := &answer{client: c, asked: u, at: u, header: header.Clone()}
	defer func() { err = elsewhere(u, a.at, err) }()
	for hop := 0; ; hop++ {
		req := &http.Request{Method: http.MethodGet, URL: a.at, Host: a.at.Host, Header: a.header.Clone()}
		if a.resp, err = c.chain.RoundTrip(req.WithContext(try.ctx)); err != nil { //nolint:bodyclose // the caller closes it
			return nil, err
		}
		if !slices.Contains(moved, a.resp.StatusCode) {
			return a, nil
		}
		drain(a.resp, io.Discard) // so that the connection can be used again
		next, err := target(a.at, a.resp, rules.plain)
		switch {
		case err != nil:
			return nil, err
		case rules.sameHost && !sameOrigin(u, next):
			return nil, fmt.Errorf("redirect to another host refused: %s", bare(next))
		case hop == rules.most:
			return nil, fmt.Errorf("more than %d redirects", rules.most)
		case sameOrigin(a.at, next):
			next.User = cmp.Or(next.User, a.at.User)
		default:
			a.header.Del("Authorization")
		}
		if a.at.Scheme == "https" && next.Scheme != "https" {
			next.User = nil
		}
		a.at = next
	}
}

// elsewhere adds the URL at which err occurred, if that is not the requested one.
func elsewhere(u, at *url.URL, err error) error {
	if at == u || err == nil || has[*redirected](err) {
		return err
	}
	return &redirected{at, err}
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
