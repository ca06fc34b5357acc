package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/registry"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var provider = sourcetest.Address

// Answers are the answers of a network by URL, without the host if that is
// example.com. A text that begins with a digit is a status, or a status and a
// location. All other texts are JSON documents. A missing URL is a 404.
type answers map[string]string

// A network is a transport that answers from a table and records the requests.
type network struct {
	answers answers
	date    string // the Date header of all answers

	mu    sync.Mutex
	asked []*http.Request
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.asked = append(n.asked, r)
	n.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Type", "application/json")
	rec.Header().Set("Date", n.date)
	text, ok := n.answers[strings.TrimPrefix(r.URL.String(), "https://example.com")]
	var code int
	var location string
	switch c, _ := fmt.Sscanf(text, "%d %s", &code, &location); {
	case !ok:
		rec.WriteHeader(http.StatusNotFound)
	case c > 0:
		rec.Header().Set("Location", location)
		rec.WriteHeader(code)
	default:
		_, _ = io.WriteString(rec, text)
	}
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

// paths returns the requested URLs, sorted, each with its credentials.
func (n *network) paths() []string {
	var paths []string
	for _, r := range n.asked {
		paths = append(paths, strings.TrimSpace(strings.TrimPrefix(r.URL.String(), "https://example.com")+" "+r.Header.Get("Authorization")))
	}
	slices.Sort(paths)
	return paths
}

func (n *network) registry(opts registry.Options) *registry.Registry {
	return registry.New(fetch.New(fetch.Options{
		Transport: n,
		Token: func(_ context.Context, h sources.Host) (string, bool, error) {
			return "secret", h == "example.com" || h == "api.example.com:8443", nil
		},
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}), opts)
}

const (
	wellKnown = "/.well-known/terraform.json"
	services  = `{"providers.v1": "/p/"}`
)

func TestDiscovery(t *testing.T) {
	const found = `{"versions": [{"version": "1.0.0"}]}`
	discoveryError := new(registry.DiscoveryError)
	for _, test := range []struct {
		name    string
		answers answers
		err     any // error to match; nil if the provider is found
		says    string
	}{
		{"relative", answers{wellKnown: services, "/p/acme/widget/versions": found}, nil, ""},
		{"without a slash", answers{wellKnown: `{"providers.v1": "/p/v1"}`, "/p/acme/widget/versions": found}, nil, ""},
		{"with a fragment and a query", answers{wellKnown: `{"providers.v1": "/p/?q#f"}`, "/p/acme/widget/versions": found}, nil, ""},
		{"another host", answers{wellKnown: `{"providers.v1": "https://api.example.com/"}`, "https://api.example.com/acme/widget/versions": found}, nil, ""},
		{"without TLS", answers{wellKnown: `{"providers.v1": "http://api.example.com/"}`, "http://api.example.com/acme/widget/versions": found}, nil, ""},
		{"redirected", answers{wellKnown: "302 https://b.example.com/x/y", "https://b.example.com/x/y": `{"providers.v1": "z/"}`, "https://b.example.com/x/z/acme/widget/versions": found}, nil, ""},
		{"other services of all kinds", answers{wellKnown: `{"a": {}, "b": [1], "c": null, "providers.v1": "/p/"}`, "/p/acme/widget/versions": found}, nil, ""},
		{"redirected too often", answers{wellKnown: "302 " + wellKnown}, &discoveryError, "more than 3 redirects"},
		{"no document", answers{}, registry.ErrNoRegistry, ""},
		{"no registry", answers{wellKnown: `{"modules.v1": "/m/"}`}, registry.ErrNoRegistry, ""},
		{"another protocol", answers{wellKnown: `{"providers.v2": "/p/"}`}, registry.ErrNoRegistry, "of protocol version 1, only of another"},
		{"unauthorized", answers{wellKnown: "401"}, fetch.ErrUnauthorized, "401"},
		{"broken", answers{wellKnown: "500"}, &discoveryError, "6 tries"},
		{"not an object", answers{wellKnown: `["providers.v1"]`}, &discoveryError, "unexpected JSON array"},
		{"null", answers{wellKnown: `null`}, &discoveryError, "not a JSON object"},
		{"empty", answers{wellKnown: ``}, &discoveryError, "incomplete JSON"},
		{"garbage", answers{wellKnown: `{"providers.v1": "/p/"`}, &discoveryError, "incomplete JSON"},
		{"text after the object", answers{wellKnown: services + "}}}"}, &discoveryError, "unexpected data after"},
		{"HTML", answers{wellKnown: `<html>`}, &discoveryError, "an HTML page"},
		{"not a text", answers{wellKnown: `{"providers.v1": {}}`}, &discoveryError, "not a URL"},
		{"empty URL", answers{wellKnown: `{"providers.v1": ""}`}, &discoveryError, "empty URL"},
		{"scheme", answers{wellKnown: `{"providers.v1": "ftp://example.com/"}`}, &discoveryError, "scheme"},
		{"user information", answers{wellKnown: `{"providers.v1": "https://u:p@example.com/"}`}, &discoveryError, "user information"},
		{"too large", answers{wellKnown: `{"x": "` + strings.Repeat("x", 1<<20) + `"}`}, fetch.ErrTooLarge, "more than 1048576 bytes"},
		{"deep", answers{wellKnown: strings.Repeat("[", 1<<19)}, &discoveryError, "max depth"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := &network{answers: test.answers}
			listing, err := n.registry(registry.Options{}).Versions(t.Context(), provider(t, "example.com/acme/widget"))
			if test.err == nil {
				sourcetest.Expect(t, err == nil && len(listing.Versions) == 1, "got %v, %v", listing, err)
				return
			}
			target, isError := test.err.(error)
			if isError && !errors.Is(err, target) || !isError && !errors.As(err, test.err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %v saying %q", err, test.err, test.says)
			}
			sourcetest.Expect(t, !errors.Is(err, sources.ErrNotFound), "%v is taken for an answer", err)
			sourcetest.Expect(t, err == nil || strings.HasPrefix(err.Error(), "example.com/acme/widget: registry example.com: "),
				"%v does not say who was asked for what", err)
		})
	}
}

func TestDiscoveryRequiresJSON(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(rw, services)
	}))
	defer srv.Close()
	r := registry.New(fetch.New(fetch.Options{Transport: srv.Client().Transport}), registry.Options{})
	_, err := r.Versions(t.Context(), provider(t, srv.Listener.Addr().String()+"/acme/widget"))
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), `content type "text/html"`), "got %v", err)
}

func TestDiscoveryHappensOnce(t *testing.T) {
	for name, text := range map[string]string{"found": services, "broken": "401"} {
		n := &network{answers: answers{wellKnown: text}}
		r := n.registry(registry.Options{})
		var group sync.WaitGroup
		for i := range 20 {
			p := provider(t, fmt.Sprintf("example.com/acme/widget%d", i))
			group.Go(func() { _, _ = r.Versions(t.Context(), p) })
		}
		group.Wait()
		asked := 0
		for _, path := range n.paths() {
			if strings.HasPrefix(path, wellKnown) {
				asked++
			}
		}
		sourcetest.Expect(t, asked == 1, "%s: discovered %d times", name, asked)
	}
}

// A blocking transport blocks the first request until it is canceled.
type blocking struct {
	*network
	first   atomic.Bool
	waiting chan struct{}
}

func (b *blocking) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.first.CompareAndSwap(false, true) {
		close(b.waiting)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return b.network.RoundTrip(r)
}

// If a caller's service discovery is canceled, a waiting caller performs its
// own.
func TestCanceledDiscoveryIsNotRecorded(t *testing.T) {
	b := &blocking{network: &network{answers: answers{wellKnown: services, "/p/acme/widget/versions": "{}"}}, waiting: make(chan struct{})}
	r := registry.New(fetch.New(fetch.Options{Transport: b}), registry.Options{})
	p := provider(t, "example.com/acme/widget")
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		_, err := r.Versions(ctx, p)
		sourcetest.ErrorIs(t, err, context.Canceled, "the first")
	})
	<-b.waiting
	for range 5 {
		group.Go(func() {
			_, err := r.Versions(t.Context(), p)
			sourcetest.Equal(t, err, nil, "another")
		})
	}
	cancel()
	group.Wait()
	_, err := r.Versions(t.Context(), p)
	sourcetest.Equal(t, err, nil, "later")
}

func TestHostBlocks(t *testing.T) {
	n := &network{answers: answers{
		"https://other.example.com/x/acme/widget/versions": `{"versions": [{"version": "1.0.0"}]}`,
		"https://rel.example.com/p/acme/widget/versions":   `{"versions": [{"version": "1.0.0"}]}`,
	}}
	r := n.registry(registry.Options{Services: map[sources.Host]map[string]string{
		"example.com":       {"providers.v1": "https://other.example.com/x/"},
		"rel.example.com":   {"providers.v1": "/p/"},
		"empty.example.com": {},
	}})
	for _, host := range []string{"example.com", "rel.example.com"} {
		l, err := r.Versions(t.Context(), provider(t, host+"/acme/widget"))
		sourcetest.Expect(t, err == nil && len(l.Versions) == 1, "%s: got %v, %v", host, l, err)
	}
	_, err := r.Versions(t.Context(), provider(t, "empty.example.com/acme/widget"))
	sourcetest.ErrorIs(t, err, registry.ErrNoRegistry, "empty")
	sourcetest.Expect(t, len(n.asked) == 2, "asked %q", n.paths())
}

func TestVersions(t *testing.T) {
	for _, test := range []struct {
		name, text, versions, warnings, says string
	}{
		{"none", `{"versions": []}`, "[]", "[]", ""},
		{"null", `null`, "[]", "[]", ""},
		{"nulls", `{"versions": [null], "warnings": null}`, "[]", `[ignored invalid versions: ""]`, ""},
		{"some", `{"id": 5, "versions": [{"version": "1.10.0", "platforms": 7}, {"version": "1.2.0"}], "extra": []}`, "[1.2.0 1.10.0]", "[]", ""},
		{"the same twice", `{"versions": [{"version": "1.0"}, {"version": "1.0.0"}]}`, "[1.0.0]", "[]", ""},
		{"in capitals", `{"VERSIONS": [{"Version": "1.0.0"}]}`, "[1.0.0]", "[]", ""},
		{"text after the object", `{"versions": [{"version": "1.0.0"}]} {"versions"`, "[1.0.0]", "[]", ""},
		{"an entry that is not a version", `{"versions": [{"version": "v1"}, {"version": "1.0.0"}, {"version": "\u001b[2J"}]}`, "[1.0.0]", `[ignored invalid versions: "v1", "\x1b[2J" (versions are listed without "v")]`, ""},
		{"an error", `{"errors": [{"message": "no license"}]}`, "[]", `[the registry lists no versions, but returned the message "no license"]`, ""},
		{"none", `{"versions": null}`, "[]", "[]", ""},
		{"a byte order mark", "\ufeff" + `{"versions": [{"version": "1.0.0"}]}`, "[1.0.0]", "[]", ""},
		{"many entries that are not versions", `{"versions": [` + strings.Repeat(`{"version": "x"},`, 99) + `{"version": "1.0.0"}]}`, "[1.0.0]", `[ignored invalid versions: "x", "x", "x", "x", "x", and 94 more]`, ""},
		{"too many versions", `{"versions": [{}` + strings.Repeat(",{}", 10_000) + `]}`, "[]", "[]", "too large: 10001, of at most 10000"},
		{"too many warnings", `{"warnings": ["1","2","3","4","5","6","7","8","9","10","11"]}`, "[]", "[1 2 3 4 5 6 7 8 9 10]", ""},
		{"warnings", `{"versions": [], "warnings": ["moved\u001b[0m\u202e", "b"]}`, "[]", "[moved [0m  b]", ""},
		{"a number", `{"versions": [{"version": 1}]}`, "[]", "[]", "unexpected JSON number"},
		{"a text", `{"versions": "1.0.0"}`, "[]", "[]", "unexpected JSON string"},
		{"cut", `{"versions": [`, "[]", "[]", "incomplete JSON"},
		{"forbidden", `403`, "[]", "[]", "403 Forbidden"},
		{"broken", `503`, "[]", "[]", "503 Service Unavailable (6 tries"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := &network{answers: answers{wellKnown: services, "/p/acme/widget/versions": test.text}}
			l, err := n.registry(registry.Options{}).Versions(t.Context(), provider(t, "example.com/acme/widget"))
			sourcetest.Require(t, (err != nil) == (test.says != "") && (err == nil || strings.Contains(err.Error(), test.says)),
				"got %v, want %q", err, test.says)
			sourcetest.Equal(t, fmt.Sprint(l.Versions), test.versions, "versions")
			sourcetest.Equal(t, fmt.Sprint(l.Warnings), test.warnings, "warnings")
		})
	}
}

// Platforms and protocols are what the registry's operator wrote, and count only if they can be read.
func TestDetails(t *testing.T) {
	const text = `{"versions": [
		{"version": "1.0.0", "protocols": ["5.0", "x\u001b[2J", "6"], "platforms": [{"os": "linux", "arch": "arm"}, {"os": "a b", "arch": "c"}, {"os": "darwin", "arch": "arm64"}]},
		{"version": "2.0.0", "platforms": 7}, {"version": "v3"}]}`
	n := &network{answers: answers{wellKnown: services, "/p/acme/widget/versions": text}}
	l := sourcetest.Must(n.registry(registry.Options{Details: true}).Versions(t.Context(), provider(t, "example.com/acme/widget")))(t)
	sourcetest.Equal(t, fmt.Sprint(l.Details), "map[1.0.0:{[darwin_arm64 linux_arm] [5.0 6]} 2.0.0:{[] []}]", "details")
	l = sourcetest.Must(n.registry(registry.Options{}).Versions(t.Context(), provider(t, "example.com/acme/widget")))(t)
	sourcetest.Equal(t, len(l.Details), 0, "details without the option")
}

func TestUnknownProvider(t *testing.T) {
	const host = "https://registry.terraform.io"
	for _, test := range []struct{ name, provider, legacy, moved string }{
		{"moved", "hashicorp/widget", `{"id": "old/widget", "moved_to": "acme/widget"}`, "acme/widget"},
		{"elsewhere", "hashicorp/widget", `{"id": "acme/widget"}`, "acme/widget"},
		{"other type", "hashicorp/widget", `{"id": "acme/gadget"}`, ""},
		{"with a host", "hashicorp/widget", `{"id": "evil.example/acme/widget"}`, ""},
		{"itself", "hashicorp/widget", `{"id": "hashicorp/widget"}`, ""},
		{"nonsense", "hashicorp/widget", `{"id": "a b/widget"}`, ""},
		{"nowhere", "hashicorp/widget", `404`, ""},
		{"other namespace", "acme/gadget", `{"id": "acme/widget"}`, ""},
		{"other host", "example.com/hashicorp/widget", `{"id": "acme/widget"}`, ""},
	} {
		n := &network{answers: answers{wellKnown: services, host + wellKnown: services, host + "/p/-/widget/versions": test.legacy}}
		_, err := n.registry(registry.Options{}).Versions(t.Context(), provider(t, test.provider))
		var missing *sources.NotFoundError
		sourcetest.Require(t, errors.As(err, &missing) && missing.Registry,
			"%s: got %v, want that the registry has no such provider", test.name, err)
		var want sources.Provider
		if test.moved != "" {
			want = provider(t, test.moved)
		}
		sourcetest.Equal(t, missing.Moved, want, test.name)
	}
}

func TestUnauthorized(t *testing.T) {
	const versions = "/p/acme/widget/versions"
	for _, test := range []struct {
		name, host string
		answers    answers
		moved      string // the URL in the host block; empty if there is none
		hint       string
	}{
		{"with credentials", "example.com", answers{wellKnown: services, versions: "401"}, "", "check that the token for example.com"},
		{"without", "other.example.com", answers{"https://other.example.com" + wellKnown: "403"}, "", "configure credentials for other.example.com"},
		{"elsewhere", "example.com", answers{wellKnown: `{"providers.v1": "https://x.example.com/p/"}`, "https://x.example.com" + versions: "401"}, "", "is at x.example.com, and tokens are sent to their own host only: configure credentials for x.example.com"},
		{"without TLS", "example.com", answers{wellKnown: `{"providers.v1": "http://example.com/p/"}`, "http://example.com" + versions: "401"}, "", "over https only"},
		{"moved", "example.com", answers{"https://x.example.com" + versions: "401"}, "https://x.example.com/p/", "check that the token for example.com"},
		{"moved without credentials", "other.example.com", answers{"https://x.example.com" + versions: "401"}, "https://x.example.com/p/", "configure credentials for other.example.com"},
		{"moved to a host with other credentials", "other.example.com", answers{"https://api.example.com:8443" + versions: "401"}, "https://api.example.com:8443/p/", "configure credentials for other.example.com"},
		{"moved to where there is no TLS", "example.com", answers{"http://x.example.com" + versions: "401"}, "http://x.example.com/p/", "over https only"},
		{"redirected", "example.com", answers{wellKnown: services, versions: "302 https://x.example.com/", "https://x.example.com/": "401"}, "", "example.com redirected the request to x.example.com, and tokens don't follow"},
	} {
		n := &network{answers: test.answers}
		opts := registry.Options{}
		if test.moved != "" {
			opts.Services = map[sources.Host]map[string]string{sources.Host(test.host): {"providers.v1": test.moved}}
		}
		_, err := n.registry(opts).Versions(t.Context(), provider(t, test.host+"/acme/widget"))
		if !errors.Is(err, fetch.ErrUnauthorized) || !strings.Contains(strings.Join(sources.Hints(err), "\n"), test.hint) {
			t.Errorf("%s: got %v with hints %q, want %q", test.name, err, sources.Hints(err), test.hint)
		}
	}
}

func TestGitHubIsNoRegistry(t *testing.T) {
	n := &network{answers: answers{}}
	_, err := n.registry(registry.Options{}).Versions(t.Context(), provider(t, "github.com/acme/widget"))
	if !errors.Is(err, registry.ErrNoRegistry) || !strings.Contains(strings.Join(sources.Hints(err), "\n"), "github.com holds the sources") {
		t.Errorf("got %v with hints %q", err, sources.Hints(err))
	}
}

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T, w *sourcetest.World) (sources.Source, func()) {
		client := fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1})
		return registry.New(client, registry.Options{Engine: sources.Terraform}), w.Registry.Stop
	})
}
