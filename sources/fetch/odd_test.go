package fetch_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A server that refuses ranges has the archive all the same: what doesn't resume is never
// worse than what starts over.
func TestServersThatRefuseRanges(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 405, 409, 412, 416, 422} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			w := newWorld(t, fetch.Options{DownloadTries: 1}, func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") != "" {
					rw.WriteHeader(status)
					return
				}
				serve(archive, `"a"`, time.Time{})(rw, r)
			})
			s := &stage{validator: `"a"`}
			s.Buffer.Write(archive[:100_000])
			sourcetest.Check(t, w.download(t, s, 0))
			sourcetest.Equal(t, s.String() == string(archive), true, "arrived as it is served")
		})
	}
}

// Where nothing is served at all, what there is of the archive stays for a later run.
func TestPartialStaysWhereNothingIsServed(t *testing.T) {
	for status, requests := range map[int]int32{404: 2, 403: 2, 429: 1, 500: 1} {
		w := newWorld(t, fetch.Options{DownloadTries: 1}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })
		s := &stage{validator: `"a"`}
		s.Buffer.Write(archive[:100_000])
		err := w.download(t, s, 0)
		sourcetest.Expect(t, err != nil && s.Len() == 100_000 && s.resets == 0, "%d: %v, %d bytes left", status, err, s.Len())
		sourcetest.Equal(t, w.requests.Load(), requests, strconv.Itoa(status))
	}
}

// A presigned is a server whose URLs are good for a while, as those of object stores are.
type presigned struct {
	mu    sync.Mutex
	good  string // the query of URLs that are good now
	asked int    // how often where the archive is
	cut   int    // every answer breaks after so many bytes, and its URL expires
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

// Where asking again doesn't help, that is done once, and the refusal is the error.
func TestURLsThatStayRefused(t *testing.T) {
	for name, renew := range map[string]func(context.Context) (string, error){
		"the same URL": func(context.Context) (string, error) { return "https://example.test/x.zip", nil },
		"an error":     func(context.Context) (string, error) { return "", errors.New("away") },
		"no URL":       func(context.Context) (string, error) { return "ftp://x", nil },
	} {
		asked := 0
		w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusForbidden) })
		err := w.client.Download(t.Context(), fetch.Archive{URL: w.URL, Renew: func(ctx context.Context) (string, error) {
			asked++
			next, err := renew(ctx)
			if name == "the same URL" {
				next = w.URL
			}
			return next, err
		}}, &stage{})
		sourcetest.Expect(t, errors.Is(err, fetch.ErrUnauthorized), "%s: %v", name, err)
		sourcetest.Equal(t, asked, 1, name)
	}
}

func TestSaid(t *testing.T) {
	for body, want := range map[string]string{
		`{"errors":["not found"]}`: "not found",
		`{"errors":[{"status":"403","title":"Forbidden","detail":"no licence"}]}`: "no licence",
		`{"errors":[{"code":"X","message":"blocked by\npolicy"}]}`:                "blocked by policy",
		`{"errors":[],"message":"gone"}`:                                          "gone",
		`{"error":{"message":"quota"}}`:                                           "quota",
		`{"error":5}`:                                                             "",
		`<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`: "AccessDenied: Request has expired",
		`<Error><Code>ExpiredToken</Code></Error>`:                                                            "ExpiredToken",
		`<html><body>Error</body></html>`:                                                                     "",
		"":                                                                                                    "",
		`{"message":"` + strings.Repeat("ü", 300) + "\"}":                                                     strings.Repeat("ü", 200) + "…",
		"{\"message\":\"a\u202e\u001b[31mb\"}":                                                                "",
	} {
		sourcetest.Equal(t, fetch.Said([]byte(body)), want, body)
	}
}
