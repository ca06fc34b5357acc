package fetch

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// checkProxy makes a proxy's refusal a status, as which it may be final.
func checkProxy(_ context.Context, proxy *url.URL, asked *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return proxyRefusal(&StatusError{Code: resp.StatusCode, URL: bare(proxy), proxy: proxy.Host, refused: asked.Host}, resp.Header, "HTTPS_PROXY")
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

// proxyRefusal is the error for what a proxy answers in place of the host: with what may
// help, if the proxy wants to know who asks. The variable names the proxy.
func proxyRefusal(err *StatusError, header http.Header, variable string) error {
	if err.Code != http.StatusProxyAuthRequired {
		return sources.WithHint(err, "ask who runs the proxy to let you reach %s, or name the host in NO_PROXY", err.refused)
	}
	var schemes []string
	for _, offer := range header.Values("Proxy-Authenticate") {
		scheme, _, _ := strings.Cut(strings.TrimSpace(offer), " ")
		schemes = append(schemes, Printable(scheme))
	}
	if len(schemes) == 0 {
		schemes = []string{"no scheme"}
	}
	return sources.WithHint(err, "the proxy wants to know who asks, and offers %s: for Basic, write %s=http://USER:PASSWORD@%s",
		strings.Join(schemes[:min(len(schemes), maxQuoted)], ", "), variable, err.proxy)
}
