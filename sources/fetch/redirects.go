package fetch

import (
	"context"
	"errors"
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

// archiveRedirects are those of archives, which have checksums.
var archiveRedirects = redirects{most: defaultRedirects, plain: true}

// An answer is the response to a request, after redirects.
type answer struct {
	client *Client
	resp   *http.Response
	asked  *url.URL    // the requested URL
	at     *url.URL    // the URL that answered
	header http.Header // of the last request, as it may be sent again
	watch  *watch      // over the body
}

// fail adds the URL that answered, and a proxy that may have answered in its place, to an error about the answer.
func (a *answer) fail(err error) error {
	return elsewhere(a.asked, a.at, a.client.through(a.at, err))
}

// follow sends a GET request once over a chain, in which each redirect is a request of its own. The Authorization in
// the header and the user information of a URL follow redirects within their origin only. The caller must close the
// body.
func (c *Client) follow(
	ctx context.Context, over http.RoundTripper, u *url.URL, header http.Header, rules redirects,
) (*answer, error) {
	a := &answer{client: c, asked: u, at: u, header: header.Clone()}
	exposed := false     // whether a redirect led from https to http; no credentials are sent after that
	var secured *url.URL // the URL that redirected to http, if https is requested instead
	for hop := 0; ; hop++ {
		req, err := newRequest(ctx, a.at, a.header)
		if err != nil {
			return nil, err
		}
		if a.resp, err = over.RoundTrip(req); err != nil { //nolint:bodyclose // the caller closes it
			if secured != nil {
				err = suggestForwarding(secured, err)
			}
			return nil, elsewhere(u, a.at, err)
		}
		if !slices.Contains(moved, a.resp.StatusCode) {
			a.watch = attemptOf(req).watch
			return a, nil
		}
		drain(a.resp, io.Discard) // so that the connection can be used again
		next, secure, err := target(a.at, a.resp, rules.plain)
		if err == nil && rules.sameHost && !sameOrigin(u, next) {
			err = fmt.Errorf("redirect to another host refused: %s", bare(next))
		}
		if err != nil {
			return nil, elsewhere(u, a.at, err)
		}
		if hop == rules.most {
			return nil, fmt.Errorf("more than %d redirects", rules.most)
		}
		exposed = exposed || a.at.Scheme == "https" && next.Scheme != "https"
		switch {
		case !sameOrigin(a.at, next):
			a.header.Del("Authorization")
		case next.User == nil:
			next.User = a.at.User
		}
		if exposed {
			next.User = nil
		}
		if secured = nil; secure {
			secured = a.at
		}
		a.at = next
	}
}

// newRequest returns a GET request.
func newRequest(ctx context.Context, u *url.URL, header http.Header) (*http.Request, error) {
	to := *u
	to.RawQuery = sendable(u.RawQuery)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, errors.New("invalid URL")
	}
	req.Header = header.Clone()
	return req, nil
}

// elsewhere adds the URL at which err occurred, if that is not the requested one.
func elsewhere(u, at *url.URL, err error) error {
	if at == u || err == nil {
		return err
	}
	return &redirected{bare(at), at.Host, err}
}

// moved are the statuses of redirects.
var moved = []int{
	http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
	http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
}

// target returns the target of a redirect. A redirect from https to http is followed only if plain is set. Otherwise
// the same URL is requested over https, and secured is true: behind a proxy that terminates TLS, many servers redirect
// to http by mistake.
func target(from *url.URL, resp *http.Response, plain bool) (to *url.URL, secured bool, err error) {
	to, err = Resolve(from, resp.Header.Get("Location"))
	if err != nil {
		return nil, false, fmt.Errorf("redirect: %w", err)
	}
	if plain || from.Scheme != "https" || to.Scheme == "https" {
		return to, false, nil
	}
	secure := *to
	secure.Scheme = "https"
	if to.Port() == "80" {
		secure.Host = strings.TrimSuffix(to.Host, ":80")
	}
	if bare(&secure) == bare(from) && secure.RawQuery == from.RawQuery {
		return nil, false, suggestForwarding(from, fmt.Errorf("redirect from https to %s refused", bare(to)))
	}
	return &secure, true, nil
}

// suggestForwarding adds a hint to the error of a host that redirects to http.
func suggestForwarding(u *url.URL, err error) error {
	return sources.WithHint(err, "if a proxy in front of %s ends TLS, have it send X-Forwarded-Proto: https", u.Host)
}

// drain copies the beginning of a body to a writer, and closes the body. It does not wait long, because nothing depends
// on the result.
func drain(resp *http.Response, to io.Writer) {
	late := time.AfterFunc(maxDrain, func() { resp.Body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(to, resp.Body, maxDrained)
	resp.Body.Close()
}

// header returns the headers of all requests.
func (c *Client) header() http.Header { return http.Header{"User-Agent": {c.opts.UserAgent}} }
