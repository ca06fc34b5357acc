package fetch

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A ProxyError is the failure of a proxy to connect to a host, or an error for which the proxy may be the reason. Its
// status comes from the proxy, so it means nothing about the contents of the host.
type ProxyError struct {
	Proxy     string // host and port of the proxy
	Host      string // the host to connect to
	Code      int    // status of the proxy's answer; 0 if there was none
	Err       error  // why there was no answer
	Uncertain bool   // whether Err may be the error of the host
}

func (e *ProxyError) Error() string {
	switch {
	case e.Uncertain:
		return fmt.Sprintf("%v (through the proxy %s)", e.Err, e.Proxy)
	case e.Err != nil:
		return fmt.Sprintf("the proxy %s did not connect to %s: %v", e.Proxy, e.Host, e.Err)
	}
	return fmt.Sprintf("the proxy %s refused the connection to %s: %v", e.Proxy, e.Host, &StatusError{Code: e.Code})
}

func (e *ProxyError) Unwrap() error { return e.Err }

// checkProxy returns a ProxyError if the proxy rejects the connection.
func checkProxy(ctx context.Context, proxy *url.URL, asked *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		if conn, ok := ctx.Value(connectionKey{}).(*connection); ok {
			conn.tunnelled.Store(true)
		}
		return nil
	}
	return refusedByProxy(proxy, "HTTPS_PROXY", asked.Host, resp)
}

// proxyOf returns the proxy for requests to u and the environment variable that sets it, or nil.
func (c *Client) proxyOf(u *url.URL) (proxy *url.URL, variable string, err error) {
	if c.opts.Proxy == nil || c.opts.Transport != nil {
		return nil, "", nil
	}
	proxy, err = c.opts.Proxy(&http.Request{URL: u})
	return proxy, strings.ToUpper(u.Scheme) + "_PROXY", err
}

// through returns err with the proxy that may have caused it. Without TLS, a proxy can answer in place of the host, and
// the two cannot be distinguished.
func (c *Client) through(u *url.URL, err error) error {
	if err == nil || u.Scheme != "http" {
		return err
	}
	return c.mayBeProxy(u, err)
}

func (c *Client) mayBeProxy(u *url.URL, err error) error {
	proxy, variable, _ := c.proxyOf(u)
	if proxy == nil || namesProxy(err) {
		return err
	}
	err = &ProxyError{Proxy: proxy.Host, Host: u.Host, Err: err, Uncertain: true}
	return sources.WithHint(err, "this may come from the proxy that %s names: "+
		"if %s can be reached without it, add the host to NO_PROXY", variable, u.Host)
}

// namesProxy reports whether err already names the proxy, or the host that can't be reached without one.
func namesProxy(err error) bool {
	return has[*ProxyError](err) || unreachable(err) != nil
}

// refusedByProxy returns the error for a rejection of the proxy that a variable names, with a hint.
func refusedByProxy(proxy *url.URL, variable, host string, resp *http.Response) error {
	err := &ProxyError{Proxy: proxy.Host, Host: host, Code: resp.StatusCode}
	if err.Code != http.StatusProxyAuthRequired {
		name, _, _ := strings.Cut(host, ":")
		return meantHost(err, name, fmt.Sprintf("ask the operator of the proxy that %s names to allow %s, "+
			"or add the host to NO_PROXY", variable, host))
	}
	schemes, basic := []string{}, false
	for _, offer := range resp.Header.Values("Proxy-Authenticate") {
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
