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

// A ProxyError is a proxy that does not lead to a host. It says nothing about what the host
// has: whatever its status is, it is no answer of the host.
type ProxyError struct {
	Proxy string // its host and port
	Host  string // that it was to lead to
	Code  int    // the status of its answer; 0 if there was none
	Err   error  // why there was no answer
}

func (e *ProxyError) Error() string {
	err := e.Err
	if err == nil {
		err = &StatusError{Code: e.Code}
	}
	return fmt.Sprintf("the proxy %s does not lead to %s: %v", e.Proxy, e.Host, err)
}

func (e *ProxyError) Unwrap() error { return e.Err }

// A proxied error is of a request that went through a proxy: it may be the proxy's.
type proxied struct {
	proxy string // its host and port
	err   error
}

func (e *proxied) Error() string { return fmt.Sprintf("%v (through the proxy %s)", e.err, e.proxy) }
func (e *proxied) Unwrap() error { return e.err }

// checkProxy makes a proxy's refusal an error that is known as such.
func checkProxy(ctx context.Context, proxy *url.URL, asked *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		if n, ok := ctx.Value(noted{}).(*note); ok {
			n.tunnelled.Store(true)
		}
		return nil
	}
	return explainProxy(&ProxyError{Proxy: proxy.Host, Host: asked.Host, Code: resp.StatusCode}, proxy, resp.Header, "HTTPS_PROXY")
}

// proxyOf is the proxy that requests to u go to, and the variable that names it; nil if none.
func (c *Client) proxyOf(u *url.URL) (proxy *url.URL, variable string) {
	if c.opts.Proxy == nil || c.opts.Transport != nil {
		return nil, ""
	}
	proxy, err := c.opts.Proxy(&http.Request{URL: u})
	if err != nil {
		return nil, "" // then nothing was sent
	}
	if u.Scheme == "http" {
		return proxy, "HTTP_PROXY"
	}
	return proxy, "HTTPS_PROXY"
}

// through is the error of what came from u. Without TLS, a proxy may have answered in place
// of the host, and nothing tells the two apart.
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

// isProxys reports whether the proxy is known to be what failed, or err says already that it
// may be.
func isProxys(err error) bool {
	var refused *ProxyError
	var perhaps *proxied
	return errors.As(err, &refused) || errors.As(err, &perhaps)
}

// unconnected is the error of a request to u that got no answer, n being what is known of its
// connection.
func (c *Client) unconnected(u *url.URL, n *note, err error) error {
	proxy, variable := c.proxyOf(u)
	switch {
	case proxy == nil || isProxys(err) || errors.Is(err, context.Canceled):
		return err
	case n.stands.Load():
		return c.through(u, err)
	case n.tunnelled.Load() && temporary(err): // and not what TLS makes of the host
		return c.mayBeProxy(u, err)
	case n.tunnelled.Load():
		return err
	}
	err = &ProxyError{Proxy: proxy.Host, Host: u.Host, Err: err}
	return sources.WithHint(err, "%s names the proxy: check that it is right, or name the host in NO_PROXY if it can be reached without", variable)
}

// explainProxy adds to a proxy's refusal what may help. The variable names the proxy.
func explainProxy(err *ProxyError, proxy *url.URL, header http.Header, variable string) error {
	if err.Code != http.StatusProxyAuthRequired {
		return sources.WithHint(err, "ask who runs the proxy that %s names to let you reach %s, or name the host in NO_PROXY", variable, err.Host)
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
		return sources.WithHint(err, "the proxy wants to know who asks, and offers %s: only Basic is supported", offers)
	case proxy.User != nil:
		return sources.WithHint(err, "the proxy refused the user and password in %s", variable)
	}
	return sources.WithHint(err, "the proxy wants to know who asks: write %s=http://USER:PASSWORD@%s", variable, err.Proxy)
}
