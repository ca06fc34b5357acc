package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/larder-cli/larder/sources"
)

// An answer is the response to a request, after redirects.
type answer struct {
	client *Client
	resp   *http.Response
	asked  *url.URL    // the requested URL
	at     *url.URL    // the URL that answered
	header http.Header // of the last request, as it may be sent again
	sent   http.Header // the same with the headers configured for the host, and those of an authorizer
}

// fail adds the URL that answered, and a proxy that may have answered in its place,
// to an error about the answer.
func (a *answer) fail(err error) error {
	return elsewhere(a.asked, a.at, a.client.through(a.at, err))
}

// send sends a request once and follows redirects. The caller must close the body.
func (c *Client) send(ctx context.Context, w *watch, by *way, u *url.URL, header http.Header, redirects int) (*answer, error) {
	header = header.Clone()
	at := u
	exposed := false     // whether a redirect led from https to http; no credentials are sent after that
	var secured *url.URL // the URL that redirected to http, if https is requested instead
	for hop := 0; ; hop++ {
		if err := by.enter(ctx, c, at); err != nil {
			return nil, err
		}
		resp, sent, err := c.roundTrip(ctx, w, by, at, header) //nolint:bodyclose // the caller closes it
		if err != nil {
			if secured != nil {
				err = suggestForwarding(secured, err)
			}
			return nil, elsewhere(u, at, err)
		}
		if !redirects3xx(resp) {
			return &answer{client: c, resp: resp, asked: u, at: at, header: header, sent: sent}, nil
		}
		next, secure, err := target(at, resp, by.plain)
		discard(resp)
		if err != nil {
			return nil, elsewhere(u, at, err)
		}
		if by.stay && !sameOrigin(u, next) {
			return nil, elsewhere(u, at, fmt.Errorf("redirect to another host refused: %s", bare(next)))
		}
		if hop == redirects {
			return nil, fmt.Errorf("more than %d redirects", redirects)
		}
		if !sameOrigin(at, next) {
			header.Del("Authorization")
		}
		if secured = nil; secure {
			secured = at
		}
		exposed = exposed || at.Scheme == "https" && next.Scheme != "https"
		if header.Get("Authorization") == "" && !exposed {
			setUser(header, next)
		}
		at = next
	}
}

// elsewhere adds the URL at which err occurred, if that is not the requested
// one.
func elsewhere(u, at *url.URL, err error) error {
	if at == u || err == nil {
		return err
	}
	return &redirected{bare(at), at.Host, err}
}

func redirects3xx(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// target returns the target of a redirect. A redirect from https to http is
// followed only if plain is set. Otherwise the same URL is requested over
// https, and secured is true: behind a proxy that terminates TLS, many servers
// redirect to http by mistake.
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
	if secure.String() == from.String() {
		return nil, false, suggestForwarding(from, fmt.Errorf("redirect from https to %s refused", bare(to)))
	}
	return &secure, true, nil
}

// suggestForwarding adds a hint to the error of a host that redirects to http.
func suggestForwarding(u *url.URL, err error) error {
	return sources.WithHint(err, "if a proxy in front of %s ends TLS, have it send X-Forwarded-Proto: https", u.Host)
}

// roundTrip sends one request, after the host's pause. It returns the response,
// with the body still to be read, and the headers that were sent.
func (c *Client) roundTrip(ctx context.Context, w *watch, by *way, u *url.URL, header http.Header) (resp *http.Response, sent http.Header, err error) {
	if err := c.keepPause(ctx, u, by.effort); err != nil {
		return nil, nil, err
	}
	anonymous := *u
	anonymous.User = nil // if used, it is in the header
	anonymous.RawQuery = sendable(u.RawQuery)
	known := &note{host: c.host(u)}
	proxy, _, err := c.proxyOf(u)
	if err != nil { // no request can be sent
		return nil, nil, err
	}
	trace := &httptrace.ClientTrace{
		TLSHandshakeStart: func() {
			if proxy != nil && proxy.Scheme != "https" { // otherwise it may be the handshake with the proxy
				known.tunnelled.Store(true)
			}
		},
		GotConn:              func(httptrace.GotConnInfo) { known.stands.Store(true) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { w.sent() },
		GotFirstResponseByte: w.begun,
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.WithValue(ctx, noted{}, known), trace), by.method, anonymous.String(), nil)
	if err != nil {
		return nil, nil, errors.New("invalid URL")
	}
	if by.body != nil && by.body.from != nil {
		req.GetBody, req.ContentLength = by.body.open, by.body.size
		req.Body, _ = req.GetBody()
	}
	if by.like != nil {
		req.Body, req.GetBody, req.ContentLength = by.like.Body, by.like.GetBody, by.like.ContentLength
	}
	req.Header = header.Clone()
	c.addHeaders(req.Header, u)
	w.answered.Store(false)
	w.renew()
	w.while(func() int {
		resp, err = c.exchange(by.over, u, req) //nolint:bodyclose // closed by who reads it
		return 0
	})
	if denied, ok := errors.AsType[*CredentialsError](err); ok {
		return nil, nil, denied.Err
	}
	if failed, ok := errors.AsType[*TokenError](err); ok {
		return nil, nil, elsewhere(u, failed.URL, c.unanswered(ctx, failed.URL, known, failed.Err))
	}
	if err != nil {
		return nil, nil, c.unanswered(ctx, u, known, err)
	}
	if ctx.Err() != nil { // an answer received after cancellation does not count
		_ = resp.Body.Close()
		return nil, nil, ended(ctx, ctx.Err())
	}
	w.answer()
	c.answered.Store(true)
	known.host.lost.Store(false)
	w.renew()
	if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
		known.host.well()
	}
	if resp.Request == nil { // an authorizer may have sent another one
		resp.Request = req
	}
	return resp, resp.Request.Header, nil
}

// exchange sends a request over the transport for its host.
func (c *Client) exchange(over http.RoundTripper, u *url.URL, req *http.Request) (*http.Response, error) {
	if over == c.documents {
		first, done, err := c.host(u).open(req)
		if err != nil {
			return nil, err
		}
		defer done()
		req = first
	}
	return c.transportFor(over, u).RoundTrip(req)
}

// refusal returns the error for a response with an unexpected status. It reads
// and closes the body.
func (a *answer) refusal() error {
	var body bytes.Buffer
	drain(a.resp, &body)
	return a.refusalOf(body.Bytes())
}

// refusalOf returns the error for a response with a body that is a message.
func (a *answer) refusalOf(body []byte) error {
	resp, at, c := a.resp, a.at, a.client
	err := &StatusError{
		Code:        resp.StatusCode,
		URL:         bare(at),
		Credentials: a.sent.Get("Authorization") != "",
		Said:        said(body, resp, a.secrets()),
		ObjectStore: isObjectStore(resp.Header) || parseXML(body).Code != "", // also behind a server that drops its headers
		Codes:       codes(body),
		Request:     resp.Request,
		signed:      isSigned(at),
		after:       retryAfter(resp.Header, time.Now()),
	}
	if err.troubles() {
		return &troubled{err, c.host(at), err.after}
	}
	if err.Code != http.StatusProxyAuthRequired {
		return err
	}
	if proxy, variable, _ := c.proxyOf(at); proxy != nil && at.Scheme == "http" {
		return explainProxy(&ProxyError{Proxy: proxy.Host, Host: at.Host, Code: err.Code}, proxy, resp.Header, variable)
	}
	return err
}

// discard reads the rest of a body if it is short, so that the connection can
// be reused, and closes it.
func discard(resp *http.Response) { drain(resp, io.Discard) }

// drain copies the beginning of a body to a writer, and closes the body. It
// does not wait long, because nothing depends on the result.
func drain(resp *http.Response, to io.Writer) {
	late := time.AfterFunc(maxDrain, func() { resp.Body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(to, resp.Body, maxDrained)
	resp.Body.Close()
}

func (c *Client) header() http.Header {
	return http.Header{"User-Agent": {c.opts.UserAgent}}
}

// setToken adds the bearer token configured for a host, or for the host of u if
// that is empty. It sends no token without TLS.
func (c *Client) setToken(ctx context.Context, header http.Header, u *url.URL, of sources.Host) error {
	if u.Scheme != "https" {
		return nil
	}
	if of == "" {
		of, _ = hostOf(u)
	}
	token, ok, err := c.token(ctx, of)
	if err != nil {
		return err // it already names the credentials
	}
	if !ok {
		return nil
	}
	if !httpguts.ValidHeaderFieldValue(token) {
		return errors.New("the token contains characters that cannot be sent")
	}
	header.Set("Authorization", "Bearer "+token)
	return nil
}

func (c *Client) token(ctx context.Context, of sources.Host) (string, bool, error) {
	if c.opts.Token == nil || of == "" { // an invalid host name cannot have credentials
		return "", false, nil
	}
	return c.opts.Token(ctx, of)
}

// setUser adds the user information of u, if there is any.
func setUser(header http.Header, u *url.URL) {
	if u.User == nil {
		return
	}
	password, _ := u.User.Password()
	(&http.Request{Header: header}).SetBasicAuth(u.User.Username(), password)
}
