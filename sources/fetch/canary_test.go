package fetch_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// canaries is a transport that redirects each request along a route, and finds the canaries of other hosts in it.
type canaries struct {
	t     *testing.T
	route []string

	mu   sync.Mutex
	seen []string // canaries with the host that got them
}

func (c *canaries) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := req.URL.String()
	for _, values := range req.Header {
		for _, value := range values {
			_, credentials, _ := strings.Cut(value, " ")
			decoded, _ := base64.StdEncoding.DecodeString(credentials)
			sent += " " + value + " " + string(decoded)
		}
	}
	for _, word := range strings.FieldsFunc(sent, func(r rune) bool { return strings.ContainsRune(" :@/", r) }) {
		if of, ok := strings.CutPrefix(word, "canary-of-"); ok {
			c.seen = append(c.seen, of)
			sourcetest.Expect(c.t, of == req.URL.Hostname() && req.URL.Scheme == "https", "%s got %s", req.URL.Host, word)
		}
	}
	resp := &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("archive"))}
	for i, at := range c.route[:len(c.route)-1] {
		if u, _ := url.Parse(at); u.Host == req.URL.Host && u.Path == req.URL.Path {
			resp.StatusCode = http.StatusFound
			resp.Header.Set("Location", c.route[i+1])
		}
	}
	return resp, nil
}

// A signer signs the requests for its host, after one for a token at another URL.
type signer struct{ tokens string }

func (s signer) Send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	token, _ := http.NewRequestWithContext(req.Context(), http.MethodGet, s.tokens, nil)
	resp, err := next.RoundTrip(token)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	req.Header.Set("Authorization", "Signed canary-of-signed.test")
	return next.RoundTrip(req)
}

func (signer) Hint(*fetch.StatusError) string { return "" }

// Each host has a token, an entry in the netrc file, a header, and a user in URLs. Wherever redirects lead, no host gets
// those of another one, and none gets its own without TLS.
func TestCanaries(t *testing.T) {
	canary := func(host string) string { host, _, _ = strings.Cut(host, ":"); return "canary-of-" + host }
	opts := fetch.Options{
		Token: func(_ context.Context, h sources.Host) (string, bool, error) { return canary(string(h)), true, nil },
		Netrc: func(hostport string) (string, string, bool) { return "netrc", canary(hostport), true },
		Hosts: map[sources.Host]fetch.HostOptions{},
	}
	for host, archives := range map[sources.Host]bool{"a.test": true, "b.test": true, "c.test": false, "signed.test": true, "tokens.test": true} {
		opts.Hosts[host] = fetch.HostOptions{Headers: map[string]string{"X-Team": canary(string(host))}, TokenForArchives: archives}
	}
	for _, route := range []string{
		"https://a.test/1 https://b.test/1 https://a.test/2 https://a.test/3",
		"https://c.test/1 https://user:canary-of-b.test@b.test/1 https://b.test/2 https://c.test/2 http://c.test/3 https://d.test/1",
		"https://user:canary-of-a.test@a.test/1 https://a.test/2 http://a.test/3 http://user:word@a.test/4",
		"https://a.test/1 https://signed.test/1 https://signed.test/2 https://b.test/1",
		"https://signed.test/1 https://a.test/1 http://signed.test/2",
		"http://a.test/1 http://user:word@b.test/1",
	} {
		c := &canaries{t: t, route: strings.Fields(route)}
		opts.Transport = c
		client := fetch.New(opts)
		client.Authorize("https://signed.test/", signer{"https://tokens.test/token"})
		for _, request := range []fetch.Request{{Credentials: true}, {}} {
			request.URL, request.Plain = c.route[0], true
			sourcetest.Must(client.Document(t.Context(), request))(t)
		}
		s := &stage{}
		check(t, client.Download(t.Context(), fetch.Archive{URL: c.route[0]}, s))
		sourcetest.Expect(t, bytes.Equal(s.Bytes(), []byte("archive")), "got %q", s)
		seen := fmt.Sprint(c.seen)
		check(t, client.Call(t.Context(), fetch.Call{URL: c.route[0]}, func(ctx context.Context) error {
			req := sourcetest.Must(http.NewRequestWithContext(ctx, http.MethodGet, c.route[0], nil))(t)
			resp, err := (&http.Client{Transport: client}).Do(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}))
		first, _ := url.Parse(c.route[0])
		sourcetest.Expect(t, strings.Contains(seen, first.Host) == (first.Scheme == "https"), "%s got %v", first, seen)
	}
}
