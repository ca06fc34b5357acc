package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/larder-cli/larder/sources"
)

// send is one try of a request, with redirects followed. It returns the
// response and the URL that gave it. The caller closes the body.
func (c *Client) send(ctx context.Context, w *watch, by *way, u *url.URL, header http.Header, redirects int) (*http.Response, *url.URL, error) {
	header = header.Clone()
	at := u
	exposed := false     // whether TLS was left, after which no credentials are sent
	var secured *url.URL // that redirected to http, where https is asked for instead
	for hop := 0; ; hop++ {
		if err := by.enter(at); err != nil {
			return nil, nil, err
		}
		resp, err := c.roundTrip(ctx, w, by.over, at, header)
		if err != nil {
			if secured != nil {
				err = suggestForwarding(secured, err)
			}
			return nil, nil, elsewhere(u, at, err)
		}
		if !redirects3xx(resp) {
			return resp, at, nil
		}
		next, secure, err := target(at, resp, by.plain)
		discard(resp)
		if err != nil {
			return nil, nil, elsewhere(u, at, err)
		}
		if by.stay && !sameOrigin(u, next) {
			return nil, nil, elsewhere(u, at, fmt.Errorf("redirect to another host refused: %s", bare(next)))
		}
		if hop == redirects {
			return nil, nil, fmt.Errorf("more than %d redirects", redirects)
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

// elsewhere says where err happened if that is not where the request began.
func elsewhere(u, at *url.URL, err error) error {
	if at == u {
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

// target is where a redirect leads. From https to http it is followed if that is plain
// enough. Else the same is asked for over https, and secured is true: proxies that end TLS
// often don't tell the server behind them, which then redirects to http.
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

// suggestForwarding adds what may help to an error of a host that redirects to http.
func suggestForwarding(u *url.URL, err error) error {
	return sources.WithHint(err, "if a proxy in front of %s ends TLS, have it send X-Forwarded-Proto: https", u.Host)
}

// roundTrip sends one request, when its host lets us, and returns the answer's
// headers with its body to come.
func (c *Client) roundTrip(ctx context.Context, w *watch, over http.RoundTripper, u *url.URL, header http.Header) (*http.Response, error) {
	if pause := c.pauseFor(u); pause > 0 {
		if err := c.opts.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
	anonymous := *u
	anonymous.User = nil // is in the header if anywhere
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }, WroteRequest: func(httptrace.WroteRequestInfo) { w.sent() }, GotFirstResponseByte: w.begun}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(c.noting(ctx, u), trace), http.MethodGet, anonymous.String(), nil)
	if err != nil {
		return nil, errors.New("invalid URL")
	}
	req.Header = header.Clone()
	c.addHeaders(req.Header, u)
	var resp *http.Response
	w.answered.Store(false)
	w.renew()
	w.while(func() int {
		resp, err = c.exchange(over, u, req) //nolint:bodyclose // closed by who reads it
		return 0
	})
	if err != nil {
		return nil, c.suggestCertificate(u, c.suggestAuthority(u, c.connecting(u, connected.Load(), ended(ctx, classify(err)))))
	}
	if ctx.Err() != nil { // what a server says as we hang up is not its answer
		_ = resp.Body.Close()
		return nil, ended(ctx, ctx.Err())
	}
	// What is for this host alone is not for those who ask again, as they may be
	// led elsewhere.
	resp.Request = req.WithContext(ctx)
	resp.Request.Header = header.Clone()
	w.answered.Store(true)
	c.answered.Store(true)
	w.renew()
	return resp, nil
}

// exchange sends a request over the transport for its host. A host that speaks
// HTTP/2 alone has archives from the other transport.
func (c *Client) exchange(over http.RoundTripper, u *url.URL, req *http.Request) (*http.Response, error) {
	if over == c.documents {
		first, done, err := c.host(u).open(req)
		if err != nil {
			return nil, err
		}
		defer done()
		req = first
	}
	h := c.host(u)
	if over == c.archives && h.modern.Load() {
		over = c.documents
	}
	resp, err := c.transport(over, u).RoundTrip(req)
	if err == nil && resp.ProtoMajor == 2 {
		h.speaks2.Store(true)
	}
	if err == nil && resp.ProtoMajor == 1 && resp.StatusCode < 400 {
		h.speaks1.Store(true)
	}
	if over == c.archives && c.documents != over && u.Scheme == "https" && h.wantsHTTP2(resp, err) {
		if again, err2 := c.transport(c.documents, u).RoundTrip(req); err2 == nil {
			if resp != nil {
				discard(resp)
			}
			h.modern.Store(again.ProtoMajor == 2)
			return again, nil
		}
	}
	return resp, err
}

// wantsHTTP2 reports whether what came of a request over HTTP/1.1 may be how a host says that
// it speaks HTTP/2 alone: it ends the handshake, hangs up after it, sends what is no HTTP/1.1
// or refuses.
func (h *host) wantsHTTP2(resp *http.Response, err error) bool {
	if h.speaks1.Load() {
		return false
	}
	if err != nil {
		var proxy *ProxyError
		var certificate *tls.CertificateVerificationError
		return !errors.As(err, &proxy) && !errors.As(err, &certificate) && !errors.Is(err, context.Canceled)
	}
	switch resp.StatusCode {
	case http.StatusMisdirectedRequest, http.StatusUpgradeRequired, http.StatusHTTPVersionNotSupported:
		return true
	case http.StatusBadRequest, http.StatusForbidden:
		return h.speaks2.Load()
	}
	return false
}

// classify marks err as one that may pass, unless it is one that does not.
func classify(err error) error {
	var (
		proxy       *ProxyError
		certificate *tls.CertificateVerificationError
		unknown     x509.UnknownAuthorityError
		name        x509.HostnameError
		invalid     x509.CertificateInvalidError
		roots       x509.SystemRootsError
		record      tls.RecordHeaderError
		dns         *net.DNSError
		op          *net.OpError
	)
	switch {
	case errors.As(err, &proxy): // which knows itself
	case errors.As(err, &certificate), errors.As(err, &unknown), errors.As(err, &name),
		errors.As(err, &invalid), errors.As(err, &roots), errors.As(err, &record):
	case errors.Is(err, http.ErrSchemeMismatch):
	case errors.As(err, &dns) && dns.IsNotFound && !dns.IsTemporary:
	case errors.As(err, &op) && op.Op == "remote error": // a TLS alert: the server will not have us
	default:
		return broken{err}
	}
	return err
}

// refusal is the error for a response that is not what was asked for. It uses
// the response up.
func (c *Client) refusal(at *url.URL, resp *http.Response) error {
	var body bytes.Buffer
	drain(resp, &body)
	err := &StatusError{
		Code:        resp.StatusCode,
		URL:         bare(at),
		Credentials: resp.Request.Header.Get("Authorization") != "",
		Said:        said(body.Bytes(), resp),
		ObjectStore: isObjectStore(resp.Header),
		signed:      isSigned(at),
		after:       retryAfter(resp.Header, time.Now()),
	}
	if err.after > 0 && err.temporary() {
		err.known = !c.leave(at, err.after)
	}
	if err.Code != http.StatusProxyAuthRequired {
		return err
	}
	if proxy := c.proxyOf(resp.Request); proxy != nil {
		return explainProxy(&ProxyError{proxy.Host, at.Host, err.Code}, proxy, resp.Header, "HTTP_PROXY")
	}
	return err
}

// discard reads what little there may be left of a body, which lets the
// connection be used again, and closes it.
func discard(resp *http.Response) { drain(resp, io.Discard) }

// drain gives the beginning of a body to a writer, and closes the body. As nothing depends on
// it, it doesn't wait for long.
func drain(resp *http.Response, to io.Writer) {
	late := time.AfterFunc(maxDrain, func() { resp.Body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(to, resp.Body, maxDrained)
	resp.Body.Close()
}

func (c *Client) header() http.Header {
	return http.Header{"User-Agent": {c.opts.UserAgent}}
}

// setToken adds the bearer token configured for u's own host, or else for the
// host behalf, if there is one and the connection keeps it secret.
func (c *Client) setToken(ctx context.Context, header http.Header, u *url.URL, behalf sources.Host) error {
	if c.opts.Token == nil || u.Scheme != "https" {
		return nil
	}
	token, ok, err := c.token(ctx, u)
	if err == nil && !ok && behalf != "" {
		token, ok, err = c.opts.Token(ctx, behalf)
	}
	if err != nil {
		return err // it says whose credentials
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

func (c *Client) token(ctx context.Context, u *url.URL) (string, bool, error) {
	host, _ := hostOf(u)
	if host == "" { // it has no name of its own, so there are no credentials for it
		return "", false, nil
	}
	return c.opts.Token(ctx, host)
}

// setUser adds the user information of u, if it has any.
func setUser(header http.Header, u *url.URL) {
	if u.User == nil {
		return
	}
	password, _ := u.User.Password()
	setBasic(header, u.User.Username(), password)
}

func setBasic(header http.Header, user, password string) {
	both := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	header.Set("Authorization", "Basic "+both)
}
