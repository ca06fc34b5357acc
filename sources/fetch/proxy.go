package fetch

import (
	"context"
	"net/http"
	"net/url"
)

// checkProxy makes a proxy's refusal a status, as which it may be final.
func checkProxy(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyError{proxy.Host, &StatusError{Code: resp.StatusCode, URL: bare(proxy)}}
}

// A proxyError is a proxy that does not let us through.
type proxyError struct {
	host string
	err  error
}

func (e *proxyError) Error() string { return "proxy " + e.host + ": " + e.err.Error() }
func (e *proxyError) Unwrap() error { return e.err }
