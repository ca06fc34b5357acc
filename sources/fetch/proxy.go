package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A ProxyError is the failure of a proxy to connect to a host. Its status comes
// from the proxy, so it means nothing about the contents of the host.
type ProxyError struct {
	Proxy string // host and port of the proxy
	Host  string // the host to connect to
	Code  int    // status of the proxy's answer; 0 if there was none
	Err   error  // why there was no answer
}

func (e *ProxyError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the proxy %s did not connect to %s: %v", e.Proxy, e.Host, e.Err)
	}
	return fmt.Sprintf("the proxy %s refused the connection to %s: %v", e.Proxy, e.Host, &StatusError{Code: e.Code})
}

func (e *ProxyError) Unwrap() error { return e.Err }

// A proxied error comes from a request over a proxy. The proxy may be its
// cause.
type proxied struct {
	proxy string // host and port of the proxy
	err   error
}

func (e *proxied) Error() string { return fmt.Sprintf("%v (through the proxy %s)", e.err, e.proxy) }
func (e *proxied) Unwrap() error { return e.err }

// checkProxy returns a ProxyError if the proxy rejects the connection.
func checkProxy(ctx context.Context, proxy *url.URL, asked *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		if n, ok := ctx.Value(noted{}).(*note); ok {
			n.tunnelled.Store(true)
		}
		return nil
	}
	return explainProxy(&ProxyError{Proxy: proxy.Host, Host: asked.Host, Code: resp.StatusCode}, proxy, resp.Header, "HTTPS_PROXY")
}

// proxyOf returns the proxy for requests to u and the environment variable that
// sets it, or nil.
func (c *Client) proxyOf(u *url.URL) (proxy *url.URL, variable string) {
	if c.opts.Proxy == nil || c.opts.Transport != nil {
		return nil, ""
	}
	proxy, err := c.opts.Proxy(&http.Request{URL: u})
	if err != nil {
		return nil, "" // no request was sent then
	}
	if u.Scheme == "http" {
		return proxy, "HTTP_PROXY"
	}
	return proxy, "HTTPS_PROXY"
}

// through returns err with the proxy that may have caused it. Without TLS, a
// proxy can answer in place of the host, and the two cannot be distinguished.
func (c *Client) through(u *url.URL, err error) error {
	if err == nil || u.Scheme != "http" {
		return err
	}
	return c.mayBeProxy(u, err)
}

func (c *Client) mayBeProxy(u *url.URL, err error) error {
	if proxy, variable := c.proxyOf(u); proxy != nil && !isProxys(err) {
		return sources.WithHint(&proxied{proxy.Host, err}, "this may come from the proxy that %s names: if %s can be reached without it, name the host in NO_PROXY", variable, u.Host)
	}
	return err
}

// isProxys reports whether err is known to be the proxy's, or already names the
// proxy.
func isProxys(err error) bool {
	var refused *ProxyError
	var perhaps *proxied
	return errors.As(err, &refused) || errors.As(err, &perhaps) || unreachable(err) != nil
}

// unconnected returns the error of a request to u without an answer. The note n
// is the state of its connection.
func (c *Client) unconnected(u *url.URL, n *note, err error) error {
	proxy, variable := c.proxyOf(u)
	switch {
	case proxy == nil || isProxys(err) || errors.Is(err, context.Canceled):
		return err
	case n.stands.Load():
		return c.through(u, err)
	case n.tunnelled.Load() && temporary(err): // not an error of TLS with the host
		return c.mayBeProxy(u, err)
	case n.tunnelled.Load():
		return err
	}
	err = &ProxyError{Proxy: proxy.Host, Host: u.Host, Err: err}
	return sources.WithHint(err, "%s names the proxy: check that it is right, or name the host in NO_PROXY if it can be reached without", variable)
}

// explainProxy adds a hint to a proxy's rejection. The variable is the one that
// sets the proxy.
func explainProxy(err *ProxyError, proxy *url.URL, header http.Header, variable string) error {
	if err.Code != http.StatusProxyAuthRequired {
		return sources.WithHint(err, "ask the operator of the proxy that %s names to allow %s, or add the host to NO_PROXY", variable, err.Host)
	}
	schemes, basic := []string{}, false
	for _, offer := range header.Values("Proxy-Authenticate") {
		scheme, _, _ := strings.Cut(strings.TrimSpace(offer), " ")
		basic = basic || strings.EqualFold(scheme, "Basic")
		schemes = append(schemes, Printable(scheme))
	}
	offers := strings.Join(schemes[:min(len(schemes), maxQuoted)], ", ")
	switch {
	case offers != "" && !basic:
		return sources.WithHint(err, "the proxy requires authentication by %s; larder supports Basic only", offers)
	case proxy.User != nil:
		return sources.WithHint(err, "the proxy refused the user and password in %s", variable)
	}
	return sources.WithHint(err, "the proxy requires authentication: set %s=http://USER:PASSWORD@%s", variable, err.Proxy)
}
