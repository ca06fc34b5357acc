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

// A URL that has expired is renewed, before the download and after each break.
func TestURLsThatExpire(t *testing.T) {
	good, asked := "none", 0
	w := newWorld(t, fetch.Options{DownloadTries: 2}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != good {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		good = "expired"
		serve(archive, `"a"`, time.Time{})(&cutting{ResponseWriter: rw, left: 300_000}, r)
	})
	s := &stage{}
	check(t, w.client.Download(t.Context(), fetch.Archive{URL: w.URL + "/x.zip?signature=0", Renew: func(context.Context) (string, error) {
		asked++
		good = "signature=" + strconv.Itoa(asked)
		return w.URL + "/x.zip?" + good, nil
	}}, s))
	sourcetest.Expect(t, bytes.Equal(s.Bytes(), archive) && s.resets == 0 && asked == 4,
		"%d bytes, %d resets, %d URLs", s.Len(), s.resets, asked)
}

// A URL that is valid for one request is renewed after the beginning of a large archive.
func TestURLsForOneRequest(t *testing.T) {
	for _, refusal := range []int{403, 404, 410} {
		used, asked := map[string]bool{}, 0
		w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
			if used[r.URL.RawQuery] {
				rw.WriteHeader(refusal)
				return
			}
			used[r.URL.RawQuery] = true
			serve(large[:7<<20], `"a"`, time.Time{})(rw, r)
		})
		s := &stage{}
		check(t, w.client.Download(t.Context(), fetch.Archive{URL: w.URL + "/x.zip?0", Renew: func(context.Context) (string, error) {
			asked++
			return w.URL + "/x.zip?" + strconv.Itoa(asked), nil
		}}, s))
		sourcetest.Expect(t, bytes.Equal(s.Bytes(), large[:7<<20]) && asked == 1, "%d: %d bytes, %d URLs", refusal, s.Len(), asked)
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
		w.mustDownload(t, archive)
		doc := sourcetest.Must(w.document(fetch.Request{URL: w.URL, Limit: 2 << 20}))(t)
		sourcetest.Expect(t, bytes.Equal(doc.Body, archive), "%s: the document has %d bytes", coding, len(doc.Body))
	}
}

// A server behind a proxy that terminates TLS redirects to http. Metadata is requested over TLS in spite of that.
func TestRedirectsOfMetadataToPlainHTTP(t *testing.T) {
	asked := 0
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer plain.Close()
	for _, test := range []struct{ to, says, hint string }{
		{"{own}/there", "", ""},
		{"{own}/here", "redirect from https to http://", "ends TLS, have it send X-Forwarded-Proto: https"},
		{plain.URL + "/here", "127.0.0.1", ""}, // where there is no TLS
	} {
		transport := fetch.NewTransport(time.Minute)
		transport.TLSClientConfig.InsecureSkipVerify = true
		w := newWorld(t, fetch.Options{Transport: transport, Tries: 1}, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/there" {
				redirectTo(strings.Replace(test.to, "{own}", "http://"+r.Host, 1))(rw, r)
			}
		})
		_, err := w.document(fetch.Request{URL: w.URL + "/here", Credentials: true})
		sourcetest.Expect(t, (err == nil) == (test.says == "") && strings.Contains(fmt.Sprint(err), test.says), "%s: %v", test.to, err)
		sourcetest.Expect(t, strings.Contains(fmt.Sprint(sources.Hints(err)), test.hint), "%s: hints %q", test.to, sources.Hints(err))
	}
	sourcetest.Equal(t, asked, 0, "requests without TLS")
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
			sourcetest.Must(client.Document(t.Context(), fetch.Request{URL: "http://example.com/"}))(t)
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
	sourcetest.Expect(t, errors.Is(err, fetch.ErrTooLarge) && s.n <= 513<<20 && w.requests.Load() == 2, "%v after %d bytes and %d requests", err, s.n, w.requests.Load())
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
