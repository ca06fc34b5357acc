package fetch

import (
	"context"
	"net/http"
	"time"
)

// An Exchange is a request that was sent, with the beginning of its answer. A redirect and the request that follows it
// are two.
type Exchange struct {
	Method string
	URL    string        // without user information and query
	Status int           // 0 if there was no answer
	Took   time.Duration // until the answer began, or the request failed
}

type traced struct{}

// Trace returns a context whose requests are reported, each when its answer begins or when it fails. Report may be
// called concurrently.
func Trace(ctx context.Context, report func(Exchange)) context.Context {
	return context.WithValue(ctx, traced{}, report)
}

// tracing is the link that reports the requests of traced contexts.
func (c *Client) tracing(next http.RoundTripper) http.RoundTripper {
	return link(func(req *http.Request) (*http.Response, error) {
		report, ok := req.Context().Value(traced{}).(func(Exchange))
		if !ok {
			return next.RoundTrip(req)
		}
		start := time.Now()
		resp, err := next.RoundTrip(req)
		e := Exchange{Method: req.Method, URL: bare(req.URL), Took: time.Since(start)}
		if err == nil {
			e.Status = resp.StatusCode
		}
		report(e)
		return resp, err
	})
}
