package fetch_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A world is a server, and a client that trusts it and does not sleep.
type world struct {
	*httptest.Server
	client   *fetch.Client
	requests atomic.Int32

	mu    sync.Mutex
	slept []time.Duration
}

// newWorld serves handler over TLS. The client reaches the server under every host name. The test fails if goroutines
// are left running.
func newWorld(t *testing.T, opts fetch.Options, handler http.HandlerFunc) *world {
	t.Helper()
	before := runtime.NumGoroutine()
	w := &world{}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		handler(rw, r)
	}))
	w.EnableHTTP2 = true
	w.Config.ErrorLog = quiet
	w.StartTLS()
	if opts.Timeout == 0 {
		opts.Timeout = 20 * time.Second
	}
	if opts.Transport == nil {
		opts.Transport = w.transport(opts.Timeout)
	}
	if opts.Sleep == nil {
		opts.Sleep = func(ctx context.Context, d time.Duration) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.slept = append(w.slept, d)
			return ctx.Err()
		}
	}
	w.client = fetch.New(opts)
	t.Cleanup(func() {
		opts.Transport.(*http.Transport).CloseIdleConnections()
		w.Close()
		checkGoroutines(t, before)
	})
	return w
}

func (w *world) transport(timeout time.Duration) *http.Transport {
	t := fetch.NewTransport(timeout)
	t.TLSClientConfig = w.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, w.Listener.Addr().String())
	}
	return t
}

func checkGoroutines(t *testing.T, before int) {
	t.Helper()
	for range 300 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
}

func (w *world) document(r fetch.Request) (*fetch.Document, error) {
	return w.client.Document(context.Background(), r)
}

func TestDocument(t *testing.T) {
	opts := fetch.Options{UserAgent: "test/1"}
	w := newWorld(t, opts, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/from" {
			http.Redirect(rw, r, "/to/doc?key=secret", http.StatusFound)
			return
		}
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(rw, "%s %s %s", r.UserAgent(), r.Header.Get("Accept"), r.Header.Get("Referer"))
	})
	doc, err := w.document(fetch.Request{URL: w.URL + "/from", Accept: "application/json"})
	check(t, err)
	sourcetest.Equal(t, string(doc.Body), "test/1 application/json ", "headers")
	sourcetest.Equal(t, doc.URL.String(), w.URL+"/to/doc?key=secret", "URL")
	sourcetest.Equal(t, doc.CheckJSON(), nil)
	doc, err = w.document(fetch.Request{URL: w.URL})
	sourcetest.Expect(t, err == nil && string(doc.Body) == "test/1  ", "got %q, %v; want no accept", doc.Body, err)
}

func TestTriesFollowTheStatus(t *testing.T) {
	for code, want := range map[int]int32{
		301: 1, // without a Location
		304: 1, 400: 1, 401: 1, 403: 1, 404: 1, 410: 1, 418: 1, 501: 1,
		408: 6, 425: 6, 429: 6, 500: 6, 502: 6, 503: 6, 504: 6, 599: 6,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(code) })
			_, err := w.document(fetch.Request{URL: w.URL + "/x"})
			sourcetest.Equal(t, w.requests.Load(), want, "requests")
			var status *fetch.StatusError
			sourcetest.Expect(t, code == 301 || errors.As(err, &status) && status.Code == code && status.URL == w.URL+"/x",
				"got %v, want a StatusError", err)
			sourcetest.Equal(t, errors.Is(err, fetch.ErrUnauthorized), code == 401 || code == 403, "unauthorized is")
			sourcetest.Expect(t, !errors.Is(err, sources.ErrNotFound), "a status is taken for an answer")
		})
	}
}

func TestTriesEmitEventsAndSucceed(t *testing.T) {
	var events []fetch.Event
	var w *world
	w = newWorld(t, fetch.Options{Report: func(e fetch.Event) { events = append(events, e) }},
		func(rw http.ResponseWriter, r *http.Request) {
			if w.requests.Load() < 4 {
				rw.WriteHeader(503)
			}
			io.WriteString(rw, "there")
		})
	doc, err := w.document(fetch.Request{URL: w.URL + "/doc?key=secret"})
	sourcetest.Require(t, err == nil && string(doc.Body) == "there", "got %v, %v", doc, err)
	sourcetest.Require(t, len(events) == 3, "got %d events, want 3", len(events))
	for i, e := range events {
		sourcetest.Expect(t, e.Try == i+1 && e.URL == w.URL+"/doc" && "https://"+e.Host == w.URL && e.Err != nil,
			"event %d: %+v", i, e)
		sourcetest.Expect(t, w.slept[i] <= e.Wait+time.Second && e.Wait <= time.Second<<i && e.AtMost >= e.Wait && e.Known == (i > 0),
			"try %d: %+v, waited %s, want at most %s and a second", e.Try, e, w.slept[i], time.Second<<i)
	}
}

func TestRetryAfter(t *testing.T) {
	for _, test := range []struct {
		name     string
		header   func() string
		min, max time.Duration // of the wait
		tries    int32
	}{
		{"seconds", func() string { return "7" }, 6 * time.Second, 8 * time.Second, 6},
		{"date", func() string { return time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat) }, 18 * time.Second, 21 * time.Second, 6},
		{"past", func() string { return "Mon, 02 Jan 2006 15:04:05 GMT" }, 0, 2 * time.Second, 6},
		{"nonsense", func() string { return "soon" }, 0, 2 * time.Second, 6},
		{"negative", func() string { return "-5" }, 0, 2 * time.Second, 6},
		{"too long", func() string { return "3600" }, 0, 0, 1},
		{"absurd", func() string { return "99999999999999999999" }, 0, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Retry-After", test.header())
				rw.WriteHeader(429)
			})
			_, err := w.document(fetch.Request{URL: w.URL})
			sourcetest.Expect(t, err != nil && w.requests.Load() == test.tries,
				"%d tries (%v), want %d", w.requests.Load(), err, test.tries)
			sourcetest.Expect(t, test.tries == 1 || w.slept[0] >= test.min && w.slept[0] <= test.max,
				"waited %s, want %s to %s at first", w.slept, test.min, test.max)
		})
	}
}

func TestCredentials(t *testing.T) {
	const host = "https://example.com"
	tokens := map[sources.Host]string{"example.com": "one", "example.com:8443": "two", "café.example.com": "three"}
	opts := fetch.Options{Token: func(_ context.Context, h sources.Host) (string, bool, error) {
		token, ok := tokens[h]
		return token, ok, nil
	}}
	w := newWorld(t, opts, func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(rw, r, to, http.StatusTemporaryRedirect)
			return
		}
		io.WriteString(rw, r.Header.Get("Authorization"))
	})
	to := func(location string) string { return host + "/?to=" + url.QueryEscape(location) }
	for _, test := range []struct{ name, url, want string }{
		{"own host", host, "Bearer one"},
		{"own host in capitals", "https://EXAMPLE.com", "Bearer one"},
		{"own host and port", "https://example.com:443", "Bearer one"},
		{"other port", "https://example.com:8443", "Bearer two"},
		{"punycode", "https://xn--caf-dma.example.com", "Bearer three"},
		{"unknown host", "https://sub.example.com", ""},
		{"token rather than user", "https://user:pass@example.com", "Bearer one"},
		{"user where there is no token", "https://user:pass@sub.example.com", "Basic dXNlcjpwYXNz"},
		{"redirect on the same host", to("/here"), "Bearer one"},
		{"redirect to the same host in full", to("https://example.com:443/here"), "Bearer one"},
		{"redirect to a subdomain", to("https://sub.example.com/"), ""},
		{"redirect to another port", to("https://example.com:8443/"), ""},
		{"redirect there and back", to("https://sub.example.com/?to=" + url.QueryEscape(host)), ""},
		{"redirect with user information", to("https://user:pass@sub.example.com"), "Basic dXNlcjpwYXNz"},
	} {
		doc, err := w.document(fetch.Request{URL: test.url, Credentials: true})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		sourcetest.Equal(t, string(doc.Body), test.want, test.name)
	}
	doc, err := w.document(fetch.Request{URL: host})
	sourcetest.Expect(t, err == nil && len(doc.Body) == 0, "unasked: got %q, %v, want none", doc.Body, err)
	for url, want := range map[string]string{
		"https://sub.example.com":     "Bearer one", // the user has moved example.com there
		"https://example.com:8443":    "Bearer one", // whatever the token there
		to("https://sub.example.com"): "",           // after a server's redirect
	} {
		doc := sourcetest.Must(w.document(fetch.Request{URL: url, Credentials: true, TokenOf: "example.com"}))(t)
		sourcetest.Equal(t, string(doc.Body), want, "on behalf of example.com", url)
	}
}

func TestTokenError(t *testing.T) {
	helper := errors.New("helper says no")
	for _, test := range []struct {
		name  string
		token string
		err   error
	}{
		{"helper", "", helper},
		{"line break", "secret\r\nX-Evil: 1", nil},
	} {
		w := newWorld(t, fetch.Options{Token: func(context.Context, sources.Host) (string, bool, error) {
			return test.token, true, test.err
		}}, func(http.ResponseWriter, *http.Request) {})
		_, err := w.document(fetch.Request{URL: w.URL, Credentials: true})
		if err == nil || !errors.Is(err, test.err) && test.err != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", test.name, err)
		}
		sourcetest.Expect(t, w.requests.Load() == 0, "%s: asked all the same", test.name)
	}
}

func TestOffline(t *testing.T) {
	client := fetch.New(fetch.Options{Offline: true, Transport: forbidden{t}})
	_, err := client.Document(t.Context(), fetch.Request{URL: "https://user:secret@example.com/x?secret"})
	sourcetest.Expect(t, errors.Is(err, sources.ErrOffline) && !strings.Contains(err.Error(), "secret"), "got %v", err)
	err = client.Download(t.Context(), fetch.Archive{URL: "https://example.com/x.zip?secret"}, &stage{})
	sourcetest.Expect(t, errors.Is(err, sources.ErrOffline) && !strings.Contains(err.Error(), "secret"), "got %v", err)
}

// A forbidden transport fails the test if it is used.
type forbidden struct{ t *testing.T }

func (f forbidden) RoundTrip(*http.Request) (*http.Response, error) {
	f.t.Error("a request was sent")
	return nil, errors.New("forbidden")
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := w.client.Document(ctx, fetch.Request{URL: w.URL})
	sourcetest.Expect(t, errors.Is(err, context.Canceled), "document: got %v", err)
	sourcetest.ErrorIs(t, w.client.Download(ctx, fetch.Archive{URL: w.URL}, &stage{}), context.Canceled, "download")
	sourcetest.Expect(t, w.requests.Load() == 1, "%d requests, want 1", w.requests.Load())
}

// A failing transport returns the same error for every request.
type failing struct {
	err   error
	asked int
}

func (f *failing) RoundTrip(*http.Request) (*http.Response, error) {
	f.asked++
	return nil, f.err
}

func TestProxyThatRefuses(t *testing.T) {
	const (
		secure   = "https://example.com/"
		password = "the proxy refused the user and password in HTTPS_PROXY"
		allow    = "ask the operator of the proxy that HTTPS_PROXY names to allow example.com:443, or add the host to NO_PROXY"
	)
	for _, tt := range []struct {
		url    string
		status int
		offers []string
		says   string
		hint   string
	}{
		{secure, 407, []string{`Basic realm="x"`, "Negotiate"}, "example.com:443: 407 Proxy Authentication Required", password},
		{secure, 407, nil, "example.com:443: 407 Proxy Authentication Required", password},
		{secure, 407, []string{"Negotiate", "NTLM"}, "example.com:443: 407 Proxy Authentication Required",
			"the proxy requires authentication by Negotiate, NTLM; larder supports Basic only"},
		{secure, 404, nil, "example.com:443: 404 Not Found", allow},
		{secure, 403, nil, "example.com:443: 403 Forbidden", allow},
	} {
		proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["Proxy-Authenticate"] = tt.offers
			rw.WriteHeader(tt.status)
		}))
		defer proxy.Close()
		at, _ := url.Parse(proxy.URL)
		at.User = url.UserPassword("user", "secret")
		_, err := fetch.New(fetch.Options{Proxy: http.ProxyURL(at)}).Document(t.Context(), fetch.Request{URL: tt.url})
		host, says, _ := strings.Cut(tt.says, ": ")
		want := "cannot reach " + host + ": the proxy " + at.Host + " refused the connection: " + says
		sourcetest.Expect(t, err != nil && err.Error() == want, "got %v, want %s", err, want)
		sourcetest.Equal(t, fmt.Sprint(sources.Hints(err)), "["+tt.hint+"]", "hints")
		var status *fetch.StatusError
		sourcetest.Expect(t, !errors.As(err, &status), "%v is taken for the host's answer", err)
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:secret@example.com/a%2Fb?secret#secret": "https://example.com/a%2Fb",
		"https://example.com:8443":                            "https://example.com:8443",
		"https://user:sec/ret@example.com":                    "(invalid URL)",
		"https://exa\x00mple.com/secret":                      "(invalid URL)",
		"mailto:secret@example.com":                           "mailto:",
	} {
		sourcetest.Equal(t, fetch.Redact(in), want, in)
	}
}

// A host that can't be reached is tried twice if it has never answered, and once if nothing answers at all.
func TestUnreachableHosts(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, test := range []struct {
		err   error
		tries int
		text  string
	}{
		{refused, 2, "cannot reach example.com: connection refused (192.0.2.1:443)"},
		{&net.OpError{Op: "proxyconnect", Net: "tcp", Err: refused}, 2, "cannot reach example.com: connection refused (192.0.2.1:443)"},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: refused.Addr, Err: os.ErrDeadlineExceeded}, 1, "cannot reach example.com: no answer (192.0.2.1:443)"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "example.com", Server: "192.0.2.53:53", IsNotFound: true}}, 1, "cannot reach example.com: no such host (DNS server 192.0.2.53)"},
		{&net.DNSError{Err: "dial udp 192.0.2.53:53: connect: network is unreachable", Server: "192.0.2.53:53", IsTemporary: true}, 2, "cannot reach example.com: network is unreachable (DNS server 192.0.2.53)"},
		{&net.DNSError{Err: "i/o timeout", Server: "192.0.2.53:5353", IsTemporary: true, IsTimeout: true}, 1, "cannot reach example.com: no answer (DNS server 192.0.2.53:5353)"},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, 6, "https://example.com/: connection reset by peer"},
		{io.EOF, 6, "https://example.com/: the server closed the connection without an answer"},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, 1, "https://example.com/: the server refused the TLS connection: bad certificate"},
		{&tls.CertificateVerificationError{Err: errors.New("x509: expired")}, 1, "https://example.com/: TLS: expired"},
		{tls.RecordHeaderError{Msg: "not TLS"}, 1, "https://example.com/: the server does not speak TLS on this port: "},
	} {
		client := fetch.New(fetch.Options{Transport: &failing{err: test.err}, Sleep: noSleep})
		_, err := client.Document(t.Context(), fetch.Request{URL: "https://example.com/"})
		var failed *fetch.Error
		if !errors.Is(err, test.err) || !errors.As(err, &failed) || failed.Tries != test.tries || !strings.HasPrefix(err.Error(), test.text) {
			t.Errorf("%v, want %d tries and %q", err, test.tries, test.text)
		}
	}
}
