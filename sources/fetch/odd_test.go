package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// If the server rejects all requests, or answers with a page, the received part of the archive is kept for a later run.
func TestPartialStaysIfAllRequestsFail(t *testing.T) {
	for status, requests := range map[int]int32{404: 2, 403: 2, 429: 1, 500: 1, 200: 1} {
		w := newWorld(t, fetch.Options{DownloadTries: 1}, func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, "<html>")
		})
		s := &stage{validator: `"a"`}
		s.Buffer.Write(archive[:100_000])
		err := w.download(t, s, 0)
		sourcetest.Expect(t, err != nil && s.Len() == 100_000 && s.resets == 0, "%d: %v, %d bytes left", status, err, s.Len())
		sourcetest.Equal(t, w.requests.Load(), requests, strconv.Itoa(status))
	}
}

// A presigned server has URLs that are valid for a limited time, like an object store.
type presigned struct {
	mu    sync.Mutex
	good  string // the query of valid URLs
	asked int    // how often the archive's URL was requested
	cut   int    // every answer breaks after this many bytes, and its URL expires
}

func (p *presigned) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	good := r.URL.RawQuery == p.good
	if good && p.cut > 0 {
		p.good = "expired"
	}
	p.mu.Unlock()
	if !good {
		rw.WriteHeader(http.StatusForbidden)
		return
	}
	out := http.ResponseWriter(rw)
	if p.cut > 0 {
		out = &cutting{ResponseWriter: rw, left: p.cut}
	}
	serve(archive, `"a"`, time.Time{})(out, r)
}

func (p *presigned) renew(base string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked++
		p.good = "signature=" + strconv.Itoa(p.asked)
		return base + "/x.zip?" + p.good, nil
	}
}

func TestURLsThatExpire(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cut   int
		asked int
	}{
		{"before the download", 0, 1},
		{"after each cut", 300_000, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &presigned{good: "none", cut: tt.cut}
			w := newWorld(t, fetch.Options{DownloadTries: 2}, p.ServeHTTP)
			s := &stage{}
			sourcetest.Check(t, w.client.Download(t.Context(), fetch.Archive{URL: w.URL + "/x.zip?signature=0", Renew: p.renew(w.URL)}, s))
			sourcetest.Equal(t, s.String() == string(archive), true, "arrived as it is served")
			sourcetest.Equal(t, p.asked, tt.asked, "asked for a URL")
			sourcetest.Equal(t, s.resets, 0, "began again")
		})
	}
}

// If renewing the URL does not help, it is renewed only once, and the error is the rejection.
func TestURLsThatStayRefused(t *testing.T) {
	for name, renew := range map[string]func(context.Context) (string, error){
		"the same URL": func(context.Context) (string, error) { return "https://example.test/x.zip", nil },
		"an error":     func(context.Context) (string, error) { return "", errors.New("away") },
		"no URL":       func(context.Context) (string, error) { return "ftp://x", nil },
	} {
		asked := 0
		w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusForbidden) })
		err := w.client.Download(t.Context(), fetch.Archive{URL: w.URL + "/x.zip?sig=secret", Renew: func(ctx context.Context) (string, error) {
			asked++
			next, err := renew(ctx)
			if name == "the same URL" {
				next = w.URL
			}
			return next, err
		}}, &stage{})
		sourcetest.Expect(t, errors.Is(err, fetch.ErrUnauthorized), "%s: %v", name, err)
		clock := strings.Contains(fmt.Sprint(sources.Hints(err)), "check the clock")
		sourcetest.Expect(t, name != "an error" || clock, "hints %q", sources.Hints(err))
		sourcetest.Equal(t, asked, 1, name)
	}
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// Whatever coding a server states, the result is the original body, or the body as received.
func TestContentEncodings(t *testing.T) {
	for coding, body := range map[string][]byte{"identity": archive, "aws-chunked": archive, "none": archive, "gzip": zipped(archive)} {
		cuts := cutter(serve(body, `"a"`, time.Time{}), times(100_000))
		w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Encoding", coding)
			rw.Header().Set("Content-Type", "application/zip")
			cuts(rw, r)
		})
		w.mustDownload(t, 0, archive)
		doc, err := w.document(fetch.Request{URL: w.URL, Limit: 2 << 20})
		sourcetest.Check(t, err)
		sourcetest.Expect(t, bytes.Equal(doc.Body, archive), "%s: the document has %d bytes", coding, len(doc.Body))
	}
}

// plainRedirect is a server behind a proxy that terminates TLS, so it redirects to http. The headers of requests
// without TLS are recorded.
func plainRedirect(t *testing.T, to func(plain, secure, path string) string) (w *world, exposed *http.Header) {
	exposed = new(http.Header)
	plain := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		*exposed = r.Header.Clone()
		serve(archive, `"a"`, time.Time{})(rw, r)
	}))
	t.Cleanup(plain.Close)
	transport := fetch.NewTransport(time.Minute)
	transport.TLSClientConfig.InsecureSkipVerify = true
	opts := fetch.Options{
		Transport: transport, Tries: 1, DownloadTries: 1,
		Netrc: func(string) (string, string, bool) { return "me", "secret", true },
		Token: func(context.Context, sources.Host) (string, bool, error) { return "secret", true, nil },
	}
	w = newWorld(t, opts, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			serve(archive, `"a"`, time.Time{})(rw, r)
			return
		}
		rw.Header().Set("Location", to(plain.URL, w.URL, r.URL.Path))
		rw.WriteHeader(http.StatusFound)
	})
	return w, exposed
}

// Metadata is requested over TLS in spite of the redirect.
func TestRedirectsOfMetadataToPlainHTTP(t *testing.T) {
	w, _ := plainRedirect(t, func(_, secure, _ string) string {
		return strings.Replace(secure, "https:", "http:", 1) + "/there"
	})
	_, err := w.document(fetch.Request{URL: w.URL + "/here", Credentials: true, Limit: 2 << 20})
	sourcetest.Check(t, err)

	const hint = "ends TLS, have it send X-Forwarded-Proto: https"
	w, _ = plainRedirect(t, func(_, secure, path string) string { return strings.Replace(secure, "https:", "http:", 1) + path })
	_, err = w.document(fetch.Request{URL: w.URL + "/here", Credentials: true})
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "redirect from https to http://"), "in a circle: %v", err)
	sourcetest.Expect(t, strings.Contains(fmt.Sprint(sources.Hints(err)), hint), "hints: %q", sources.Hints(err))

	w, exposed := plainRedirect(t, func(plain, _, path string) string { return plain + path })
	_, err = w.document(fetch.Request{URL: w.URL + "/here", Credentials: true})
	sourcetest.Expect(t, err != nil && len(*exposed) == 0, "no TLS there: %v, sent %v", err, *exposed)
}

// A request that starts during a pause waits for its end.
func TestRequestsDuringAPause(t *testing.T) {
	inBubble(t, fetch.Options{Tries: 1}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			rw.Header().Set("Retry-After", "20")
			rw.WriteHeader(http.StatusTooManyRequests)
		}
	}, func(t *testing.T, client *fetch.Client) {
		_, err := client.Document(t.Context(), fetch.Request{URL: "http://example.com/busy"})
		sourcetest.Expect(t, err != nil, "no error")
		for _, least := range []time.Duration{20 * time.Second, 0} {
			begun := time.Now()
			_, err = client.Document(t.Context(), fetch.Request{URL: "http://example.com/"})
			sourcetest.Check(t, err)
			took := time.Since(begun)
			sourcetest.Expect(t, took >= least && took <= least+time.Second, "waited %s", took)
		}
	})
}

// A body that never arrives delays neither a redirect nor the request after a rejected range.
func TestBodiesThatNeverArrive(t *testing.T) {
	stall := func(rw http.ResponseWriter, r *http.Request, status int) {
		rw.Header().Set("Content-Length", "5000")
		rw.WriteHeader(status)
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	inBubble(t, fetch.Options{Tries: 1, DownloadTries: 1}, func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/from":
			rw.Header().Set("Location", "/x.zip")
			stall(rw, r, http.StatusFound)
		case r.Header.Get("Range") != "":
			stall(rw, r, http.StatusForbidden)
		default:
			serve(archive, `"a"`, time.Time{})(rw, r)
		}
	}, func(t *testing.T, client *fetch.Client) {
		begun := time.Now()
		s := &stage{validator: `"a"`}
		s.Buffer.Write(archive[:100_000])
		check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/from"}, s))
		sourcetest.Expect(t, s.Len() == len(archive) && time.Since(begun) < 5*time.Second, "%d bytes after %s", s.Len(), time.Since(begun))
	})
}

// The size of decompressed archives is limited, and the data is written only once.
func TestCompressedBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("half a gigabyte is inflated")
	}
	w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(rw)
		_, _ = io.CopyN(z, zeros{}, 1<<30)
		_ = z.Close()
	})
	var s discarding
	err := w.client.Download(t.Context(), fetch.Archive{URL: w.URL + "/x.zip"}, &s)
	sourcetest.Expect(t, errors.Is(err, fetch.ErrTooLarge) && s.n <= 513<<20 && w.requests.Load() == 1, "%v after %d bytes and %d requests", err, s.n, w.requests.Load())
}

// A discarding stage counts bytes and keeps none.
type discarding struct {
	stage
	n int64
}

func (d *discarding) Write(p []byte) (int, error) {
	d.n += int64(len(p))
	return len(p), nil
}
