package fetch_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// inBubble runs test in a bubble with fake time. All requests of its client go to handler.
func inBubble(t *testing.T, opts fetch.Options, handler http.HandlerFunc, test func(*testing.T, *fetch.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{Handler: handler, ErrorLog: quiet}
		go server.Serve(l)
		defer server.Close()
		transport := fetch.NewTransport(15 * time.Second)
		transport.DialContext = l.dial
		opts.Transport = transport
		client := fetch.New(opts)
		defer transport.CloseIdleConnections()
		test(t, client)
	})
}

// A pipes is a listener within the process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.closed); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// every writes n bytes after each interval, until the client is gone.
func every(interval time.Duration, n int) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = rw.Write(make([]byte, n))
			rw.(http.Flusher).Flush()
			select {
			case <-time.After(interval):
			case <-r.Context().Done():
			}
		}
	}
}

// silent accepts the request and never answers.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestPatience(t *testing.T) {
	for _, test := range []struct {
		name     string
		handler  http.HandlerFunc
		document time.Duration // until one try of a document ends
		download time.Duration // until one try of an archive ends
		says     string
	}{
		{"silence", silent, 15 * time.Second, 3 * time.Minute, "stalled: no answer within 15s"},
		{"a byte a second", every(time.Second, 1), 15 * time.Second, 3 * time.Minute, "stalled: too little data within 15s"},
		{"one large piece", every(time.Hour, 20_000), 15 * time.Second, 15 * time.Second, "stalled: too little data within 15s"},
		{"slow but steady", every(time.Second, 2000), 2 * time.Minute, time.Hour, "stalled: too little data within 15s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, fetch.Options{Tries: 1, DownloadTries: 1}, test.handler, func(t *testing.T, client *fetch.Client) {
				start := time.Now()
				_, err := client.Document(t.Context(), fetch.Request{URL: "http://example.com/"})
				if took := time.Since(start); !errors.Is(err, fetch.ErrStalled) || took != test.document || !strings.HasSuffix(err.Error(), test.says) {
					t.Errorf("document: got %v after %s, want %q after %s", err, took, test.says, test.document)
				}
				start = time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err = client.Download(ctx, fetch.Archive{URL: "http://example.com/x.zip"}, &stage{})
				if took := time.Since(start).Round(time.Second); err == nil || took != test.download {
					t.Errorf("download: got %v after %s, want %s", err, took, test.download)
				}
			})
		})
	}
}

// If a server never answers, or sends only headers, an archive is requested twice for minutes or more often for seconds,
// and the hint says what to do.
func TestPatienceEnds(t *testing.T) {
	const hint = "wait longer"
	headers := func(rw http.ResponseWriter, r *http.Request) {
		rw.(http.Flusher).Flush()
		silent(rw, r)
	}
	for _, test := range []struct {
		name              string
		answer            http.HandlerFunc
		timeout           time.Duration
		archive, document time.Duration
		tries             int
	}{
		{"silent", silent, 0, 6 * time.Minute, 90 * time.Second, 2},
		{"silent for longer", silent, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, 2},
		{"headers", headers, 0, 6 * time.Minute, 90 * time.Second, 5},
		{"headers for longer", headers, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, 2},
	} {
		asked := &load{}
		inBubble(t, fetch.Options{Timeout: test.timeout, StallHint: hint}, func(rw http.ResponseWriter, r *http.Request) {
			asked.add(1)
			test.answer(rw, r)
		}, func(t *testing.T, client *fetch.Client) {
			start := time.Now()
			err := client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, &stage{})
			took := time.Since(start)
			sourcetest.Expect(t, errors.Is(err, fetch.ErrStalled) && took >= test.archive && took < test.archive+90*time.Second,
				"%s: %v after %s", test.name, err, took)
			sourcetest.Equal(t, strings.Join(sources.Hints(err), "\n"), hint, test.name)
			sourcetest.Equal(t, asked.highest(), test.tries, test.name)
			start = time.Now()
			_, err = client.Document(t.Context(), fetch.Request{URL: "http://example.com/"})
			took = time.Since(start)
			sourcetest.Expect(t, took >= test.document && took < test.document+3*time.Minute, "%s: %v after %s", test.name, err, took)
			sourcetest.Equal(t, strings.Join(sources.Hints(err), "\n"), hint, test.name)
		})
	}
}

// Only the server can stall: a slow disk is no error.
func TestSlowStage(t *testing.T) {
	inBubble(t, fetch.Options{DownloadTries: 1}, serve(archive, "", time.Time{}), func(t *testing.T, client *fetch.Client) {
		sourcetest.Equal(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, &stage{slow: time.Minute}), nil)
	})
}
