package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
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
		`{"errors":"no licence"}`:                                                 "no licence",
		`{"title":"blocked","type":"about:blank"}`:                                "blocked",
		`{"error":5}`: "",
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

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// Whatever coding a server states, what arrives is what it was before, or as it came.
func TestContentEncodings(t *testing.T) {
	for _, tt := range []struct {
		coding string
		body   []byte
	}{
		{"", archive},
		{"identity", archive},
		{"aws-chunked", archive},
		{"aws-chunked,gzip", zipped(archive)},
		{"utf-8", archive},
		{"none", archive},
		{"binary", archive},
		{"br", archive},
		{"gzip", zipped(archive)},
		{"X-GZIP", zipped(archive)},
		{"gzip", archive}, // which it is not
	} {
		t.Run(tt.coding, func(t *testing.T) {
			cuts := cutter(serve(tt.body, `"a"`, time.Time{}), times(100_000))
			w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				if tt.coding != "" {
					rw.Header().Set("Content-Encoding", tt.coding)
				}
				rw.Header().Set("Content-Type", "application/zip")
				cuts(rw, r)
			})
			w.mustDownload(t, 0, archive)
			if strings.Contains(strings.ToLower(tt.coding), "gzip") && tt.coding != "X-GZIP" {
				return // which the transport undoes for documents
			}
			doc, err := w.document(fetch.Request{URL: w.URL, Limit: 2 << 20})
			sourcetest.Check(t, err)
			sourcetest.Expect(t, bytes.Equal(doc.Body, archive), "the document has %d bytes", len(doc.Body))
		})
	}
}

// A plainRedirect is a server behind a proxy that ends TLS: it redirects to http. What is
// asked of it without TLS is noted.
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

// Archives and what is signed are fetched without TLS too, but nothing secret is sent.
func TestRedirectsToPlainHTTP(t *testing.T) {
	w, exposed := plainRedirect(t, func(plain, _, path string) string {
		return strings.Replace(plain, "http://", "http://user:secret@", 1) + path
	})
	s := w.mustDownload(t, 0, archive)
	sourcetest.Equal(t, s.Len(), len(archive), "bytes")
	sourcetest.Equal(t, exposed.Get("Authorization"), "", "sent without TLS")
	_, err := w.document(fetch.Request{URL: w.URL + "/SHA256SUMS", Plain: true, Limit: 2 << 20})
	sourcetest.Check(t, err)
	sourcetest.Equal(t, exposed.Get("Authorization"), "", "sent without TLS")
}

// Metadata is asked for with TLS all the same.
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
	sourcetest.Expect(t, strings.Contains(fmt.Sprint(sources.Hints(err)), hint), "hints: %q", sources.Hints(err))
}

// A server with HTTP/2 alone may hang up after the handshake, or say what is no HTTP/1.1.
func TestServersWithHTTP2Alone(t *testing.T) {
	for name, says := range map[string]string{
		"hangs up": "", "settings": "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00",
		"426": "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n", "505": "HTTP/1.1 505 X\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) { holdHTTP2Alone(t, says) })
	}
}

func holdHTTP2Alone(t *testing.T, says string) {
	var hungUp atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			serve(archive, `"a"`, time.Time{})(rw, r)
			return
		}
		hungUp.Add(1)
		conn, _, err := http.NewResponseController(rw).Hijack()
		check(t, err)
		_, _ = io.WriteString(conn, says)
		conn.Close()
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	client := fetch.New(fetch.Options{DownloadTries: 1, Hosts: map[sources.Host]fetch.HostOptions{
		sources.Host(server.Listener.Addr().String()): {Authorities: []*x509.Certificate{server.Certificate()}},
	}})
	defer client.CloseIdleConnections()
	for range 3 {
		s := &stage{}
		check(t, client.Download(t.Context(), fetch.Archive{URL: server.URL + "/x.zip"}, s))
		sourcetest.Equal(t, s.Len(), len(archive), "bytes")
	}
	sourcetest.Equal(t, hungUp.Load(), 1, "tried over HTTP/1.1")
}

// Where a page is answered instead, the error says so, and from where it came.
func TestPagesInsteadOfWhatWasAskedFor(t *testing.T) {
	w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/login" {
			http.Redirect(rw, r, "/login?from=secret", http.StatusFound)
			return
		}
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(rw, "\ufeff\n<!DOCTYPE html>\n<html><body>Sign in")
	})
	const page = `/login: an HTML page ("text/html; charset=utf-8") instead of `
	err := w.download(t, &stage{}, 0)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), page+"an archive"), "archive: %v", err)
	doc, err := w.document(fetch.Request{URL: w.URL + "/x"})
	sourcetest.Check(t, err)
	for wanted, err := range map[string]error{"JSON": doc.JSON(new(any)), "checksums": doc.CheckText("checksums")} {
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), page+wanted) && !strings.Contains(err.Error(), "secret"), "%s: %v", wanted, err)
		sourcetest.Expect(t, strings.Contains(fmt.Sprint(sources.Hints(err)), "in a browser"), "%s: hints %q", wanted, sources.Hints(err))
	}
}

// Of many requests that a busy host asks to wait, one tells of it.
func TestOneWaitIsToldOnce(t *testing.T) {
	told := 0
	var begun time.Time
	inBubble(t, fetch.Options{Report: func(fetch.Event) { told++ }}, func(rw http.ResponseWriter, _ *http.Request) {
		if time.Since(begun) < 10*time.Second {
			rw.Header().Set("Retry-After", "20")
			rw.WriteHeader(http.StatusTooManyRequests)
		}
	}, func(t *testing.T, client *fetch.Client) {
		begun = time.Now()
		var group sync.WaitGroup
		for range 40 {
			group.Go(func() {
				_, err := client.Document(t.Context(), fetch.Request{URL: "http://example.com/"})
				sourcetest.Equal(t, err, nil)
			})
		}
		group.Wait()
	})
	sourcetest.Equal(t, told, 1, "told")
}

// pauses are shared by clients as processes share them.
type pauses struct{ sync.Map }

func (p *pauses) Until(host string) time.Time {
	until, _ := p.Load(host)
	at, _ := until.(time.Time)
	return at
}

func (p *pauses) Leave(host string, until time.Time) { p.Store(host, until) }

// What a server asks of one process, another one does before its first request, but no
// longer than it would wait by itself.
func TestPausesAreShared(t *testing.T) {
	var shared pauses
	inBubble(t, fetch.Options{Tries: 1}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			rw.Header().Set("Retry-After", "20")
			rw.WriteHeader(http.StatusTooManyRequests)
		}
	}, func(t *testing.T, one *fetch.Client) {
		one.Share(&shared)
		_, err := one.Document(t.Context(), fetch.Request{URL: "http://example.com/busy"})
		sourcetest.Expect(t, err != nil, "no error")
	})
	for name, tt := range map[string]struct{ ahead, least, most time.Duration }{
		"as asked":     {20 * time.Second, 20 * time.Second, 21 * time.Second},
		"over":         {-time.Second, 0, 0},
		"far too long": {24 * time.Hour, 2 * time.Minute, 2*time.Minute + time.Second},
	} {
		inBubble(t, fetch.Options{}, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, other *fetch.Client) {
			shared.Leave("example.com:80", time.Now().Add(tt.ahead))
			other.Share(&shared)
			begun := time.Now()
			_, err := other.Document(t.Context(), fetch.Request{URL: "http://example.com/"})
			sourcetest.Check(t, err)
			took := time.Since(begun)
			sourcetest.Expect(t, took >= tt.least && took <= tt.most, "%s: waited %s", name, took)
		})
	}
}

// A body that doesn't come holds up neither a redirect nor what follows a refused range.
func TestBodiesThatDoNotCome(t *testing.T) {
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

// So does an error in JSON or XML, which the message has.
func TestErrorsInsteadOfArchives(t *testing.T) {
	for body, says := range map[string]string{
		`{"errors":[{"message":"licence expired"}]}`:          `the message "licence expired"`,
		"<Error><Code>NoSuchKey</Code></Error>":               `the message "NoSuchKey"`,
		"\ufeff<!DOCTYPE html>" + strings.Repeat("x", 10_000): "an HTML page",
	} {
		w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, body) })
		err := w.download(t, &stage{}, 0)
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), says) && w.requests.Load() == 1, "%v, want %s", err, says)
	}
}

// Why there is no other URL is told with the refusal.
func TestRenewalsThatFailAreTold(t *testing.T) {
	w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusForbidden) })
	renew := func(context.Context) (string, error) { return "", errors.New("the registry is away") }
	err := w.client.Download(t.Context(), fetch.Archive{URL: w.URL + "/x.zip?sig=secret", Renew: renew}, &stage{})
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "403 Forbidden (asked for another URL: the registry is away)"), "%v", err)
	sourcetest.Expect(t, strings.Contains(fmt.Sprint(sources.Hints(err)), "check the clock"), "hints %q", sources.Hints(err))
}

// A page in answer to a resumed download leaves what there is of the archive.
func TestPageLeavesThePartial(t *testing.T) {
	w := newWorld(t, fetch.Options{DownloadTries: 1}, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "<html>") })
	s := &stage{validator: `"a"`}
	s.Buffer.Write(archive[:100_000])
	err := w.download(t, s, 0)
	sourcetest.Expect(t, err != nil && s.Len() == 100_000, "%v, %d bytes left", err, s.Len())
}
