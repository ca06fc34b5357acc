package fetch

import (
	"context"
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
	Code  int    // the status of its answer
}

func (e *ProxyError) Error() string {
	return fmt.Sprintf("the proxy %s refused the connection to %s: %v", e.Proxy, e.Host, &StatusError{Code: e.Code})
}

// checkProxy makes a proxy's refusal an error that is known as such.
func checkProxy(_ context.Context, proxy *url.URL, asked *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return explainProxy(&ProxyError{proxy.Host, asked.Host, resp.StatusCode}, proxy, resp.Header, "HTTPS_PROXY")
}

// proxyOf is the proxy that a request without TLS went to; nil if none.
func (c *Client) proxyOf(req *http.Request) *url.URL {
	if c.opts.Proxy == nil || req.URL.Scheme != "http" {
		return nil
	}
	proxy, err := c.opts.Proxy(req)
	if err != nil {
		return nil // then nothing was sent
	}
	return proxy
}

// explainProxy adds to a proxy's refusal what may help. The variable names the proxy.
func explainProxy(err *ProxyError, proxy *url.URL, header http.Header, variable string) error {
	if err.Code != http.StatusProxyAuthRequired {
		return sources.WithHint(err, "ask the proxy's operator to allow %s, or add the host to NO_PROXY", err.Host)
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
