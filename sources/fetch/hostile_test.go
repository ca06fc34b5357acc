package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func endless(rw http.ResponseWriter, _ *http.Request) {
	chunk := bytes.Repeat([]byte("["), 64<<10)
	for {
		if _, err := rw.Write(chunk); err != nil {
			return
		}
	}
}

// bomb is compressed data that expands to a thousand times its size.
var bomb = sync.OnceValue(func() []byte {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = io.CopyN(z, zeros{}, 16<<20)
	_ = z.Close()
	return buf.Bytes()
})

func gzipBomb(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Encoding", "gzip")
	_, _ = rw.Write(bomb())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func redirectTo(location string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Location", location)
		rw.WriteHeader(http.StatusFound)
	}
}

// cut breaks the connection in the middle of the body.
func cut(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Length", "100")
	_, _ = rw.Write([]byte("half"))
	rw.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// garbage answers with something other than HTTP.
func garbage(rw http.ResponseWriter, _ *http.Request) {
	conn, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 connections cannot be hijacked
	}
	fmt.Fprint(conn, "\x00\xff\x1b[31m nonsense\r\n\r\n")
	conn.Close()
}

// A failure is what a server answers, and what becomes of it.
type failure struct {
	name    string
	handler http.HandlerFunc
	size    int64  // that an archive should have; 0 if unknown
	is      error  // that the error matches; may be nil
	says    string // part of the error
	tries   int32
}

func (f failure) check(t *testing.T, w *world, path string, err error) {
	t.Helper()
	sourcetest.Require(t, err != nil && strings.Contains(err.Error(), f.says), "got %v, want …%s…", err, f.says)
	sourcetest.Expect(t, f.is == nil || errors.Is(err, f.is), "%v does not match %v", err, f.is)
	sourcetest.Expect(t, !strings.Contains(strings.ReplaceAll(err.Error(), "example.com/secret", ""), "secret"), "%v tells a secret", err)
	failed, ok := errors.AsType[*fetch.Error](err)
	sourcetest.Expect(t, ok && failed.URL == w.URL+path, "%v is not of the URL", err)
	sourcetest.Expect(t, w.requests.Load() == f.tries, "%d requests (%v), want %d", w.requests.Load(), err, f.tries)
}

func TestHostileDocuments(t *testing.T) {
	for _, test := range []failure{
		{"endless", endless, 0, fetch.ErrTooLarge, "more than 1048576 bytes", 1},
		{"too long according to its header", func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Content-Length", "1048577") },
			0, fetch.ErrTooLarge, "1048577 bytes", 1},
		{"gzip bomb", gzipBomb, 0, fetch.ErrTooLarge, "more than 1048576 bytes", 1},
		{"cut", cut, 0, nil, "(2 tries", 2},
		{"garbage", garbage, 0, nil, "(2 tries", 2},
		{"redirect loop", redirectTo("/again?secret"), 0, nil, "more than 10 redirects", 11},
		{"redirect to http", redirectTo("http://example.com/secret?secret"), 0, nil, "redirect from https to http://example.com/", 2},
		{"redirect to a file", redirectTo("file:///etc/secret"), 0, nil, `unsupported URL scheme "file"`, 1},
		{"redirect to an invalid URL", redirectTo("https://user:sec/ret@example.com"), 0, nil, "invalid URL", 1},
		{"redirect to an empty URL", redirectTo(""), 0, nil, "empty URL", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, fetch.Options{Tries: 2}, test.handler)
			_, err := w.document(fetch.Request{URL: w.URL + "/doc?secret"})
			test.check(t, w, "/doc", err)
		})
	}
}

func noSleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func TestURLsThatCannotBeFetched(t *testing.T) {
	client := fetch.New(fetch.Options{Transport: forbidden{t}})
	for url, says := range map[string]string{
		"":                         "empty URL",
		"ftp://example.com/secret": "unsupported URL scheme",
		"/secret":                  "unsupported URL scheme",
		"https:///secret":          "without a host",
		"https://" + strings.Repeat("secret.", 40):              "too long",
		"https://example.com/" + strings.Repeat("secret", 9000): "too long",
		"https://u:sec/ret@example.x":                           "invalid URL",
		"https:secret":                                          "without a host",
	} {
		_, err := client.Document(t.Context(), fetch.Request{URL: url})
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), says), "%q: got %v, want %s", url, err, says)
	}
}

// However many large documents are requested, two are in memory at the same time. Small documents don't wait for them.
// A document that can't be read leaves its place to others.
func TestLargeDocumentsAreReadAFewAtATime(t *testing.T) {
	w := newWorld(t, fetch.Options{Tries: 1}, func(rw http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(path.Base(r.URL.Path))
		_, _ = rw.Write(make([]byte, size))
	})
	read := func(size int, use func(*fetch.Document) error) error {
		_, err := w.document(fetch.Request{URL: fmt.Sprintf("%s/%d", w.URL, size), Limit: 300_000, Read: use})
		return err
	}
	for range 5 {
		err := read(300_001, nil)
		sourcetest.Expect(t, errors.Is(err, fetch.ErrTooLarge), "%v", err)
		err = read(200_000, func(*fetch.Document) error { return errors.New("odd") })
		sourcetest.Expect(t, err != nil && err.Error() == "odd", "%v", err)
	}
	var now, most atomic.Int64
	var small, large sync.WaitGroup
	small.Add(20)
	for range 20 {
		large.Go(func() {
			sourcetest.Check(t, read(200_000, func(*fetch.Document) error {
				for n := now.Add(1); n > most.Load(); {
					most.Store(n)
				}
				defer now.Add(-1)
				small.Wait()
				return nil
			}))
		})
		go func() {
			sourcetest.Check(t, read(10_000, func(*fetch.Document) error { small.Done(); return nil }))
		}()
	}
	large.Wait()
	sourcetest.Expect(t, most.Load() <= 2, "%d at the same time", most.Load())
}
