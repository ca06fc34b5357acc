package fetch

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

// A recorder answers every request with an empty response, and records the last
// request.
type recorder struct{ header http.Header }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.header = req.Header
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// The parts of an archive are requested with the headers of the first request,
// and may be redirected elsewhere.
func TestRepeatedRequestLacksHostHeaders(t *testing.T) {
	over := &recorder{}
	c := New(Options{Transport: over, Hosts: map[sources.Host]HostOptions{"a.test": {Headers: map[string]string{"X-Team": "platform"}}}})
	ctx, w := c.attempt(t.Context(), &tries{})
	defer w.stop()
	a, err := c.follow(ctx, c.documents, &url.URL{Scheme: "https", Host: "a.test"}, http.Header{"X-Other": {"x"}}, redirects{})
	check(t, err)
	defer a.resp.Body.Close()
	sourcetest.Expect(t, over.header.Get("X-Team") == "platform" && over.header.Get("X-Other") == "x", "sent: %v", over.header)
	again := a.header
	sourcetest.Expect(t, again.Get("X-Team") == "" && again.Get("X-Other") == "x", "to be sent again: %v", again)
}
