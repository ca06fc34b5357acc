package fetch_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
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

var check = sourcetest.Check

var quiet = log.New(io.Discard, "", 0)

// A stage holds the archive in memory.
type stage struct {
	bytes.Buffer
	validator string // of the bytes in the buffer
	resets    int
	expected  int64
	refused   error // of Expect
	failing   error // of Write
	slow      time.Duration
}

func (s *stage) Write(p []byte) (int, error) {
	time.Sleep(s.slow)
	if s.failing != nil {
		return 0, s.failing
	}
	return s.Buffer.Write(p)
}

func (s *stage) Expect(size int64) error {
	s.expected = size
	return s.refused
}

func (s *stage) Begin(validator string) error {
	if s.Len() > 0 {
		s.resets++
	}
	s.Buffer.Reset()
	s.validator = validator
	return nil
}

func (s *stage) Resume() (int64, string) { return int64(s.Len()), s.validator }

func (s *stage) Spool(int64) (sources.Spool, error) { return nil, errors.ErrUnsupported }

var archive = func() []byte {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}()

// serve serves content with ranges, and with the validators given.
func serve(content []byte, etag string, modified time.Time) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if etag != "" {
			rw.Header().Set("ETag", etag)
		}
		http.ServeContent(rw, r, "x.zip", modified, bytes.NewReader(content))
	}
}

// cutter breaks the connection during answers of handler, after the number of bytes that next returns. A negative
// number means that the answer is complete.
func cutter(handler http.HandlerFunc, next func(n int) int) http.HandlerFunc {
	var n atomic.Int32
	return func(rw http.ResponseWriter, r *http.Request) {
		handler(&cutting{ResponseWriter: rw, left: next(int(n.Add(1)))}, r)
	}
}

type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if c.left < 0 || len(p) <= c.left {
		if c.left >= 0 {
			c.left -= len(p)
		}
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	c.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// times breaks the first answers after the given numbers of bytes.
func times(cuts ...int) func(int) int {
	return func(n int) int {
		if n > len(cuts) {
			return -1
		}
		return cuts[n-1]
	}
}

func (w *world) download(t *testing.T, s *stage, size int64) error {
	t.Helper()
	return w.client.Download(context.Background(), fetch.Archive{URL: w.URL + "/x.zip?secret", Size: size}, s)
}

func (w *world) mustDownload(t *testing.T, want []byte) *stage {
	t.Helper()
	s := &stage{}
	check(t, w.download(t, s, 0))
	sourcetest.Require(t, bytes.Equal(s.Bytes(), want), "got %d bytes that differ from the %d served", s.Len(), len(want))
	return s
}

func TestDownloadResumesAfterBreak(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	cuts := []int{0, 1, 65536, 100_000, 300_000, 1000}
	for _, test := range []struct {
		name   string
		etag   string
		at     time.Time
		resets int
	}{
		{"strong entity tag", `"a"`, time.Time{}, 0},
		{"old date", "", old, 0},
		{"weak entity tag and old date", `W/"a"`, old, 0},
		{"weak entity tag", `W/"a"`, time.Time{}, 5},
		{"recent date", "", time.Now().Add(time.Hour), 5},
		{"nothing", "", time.Time{}, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, fetch.Options{DownloadTries: 20}, cutter(serve(archive, test.etag, test.at), times(cuts...)))
			s := w.mustDownload(t, archive)
			sourcetest.Expect(t, s.resets == test.resets, "began again %d times, want %d", s.resets, test.resets)
		})
	}
}

// A download with little progress may take long, but ends at some point.
func TestDownloadThatCrawls(t *testing.T) {
	for _, test := range []struct {
		tries, step int
		want        int32
	}{
		{3, 1, 3},
		{1, 70_000, 10},
	} {
		handler := cutter(serve(archive, `"a"`, time.Time{}), func(int) int { return test.step })
		w := newWorld(t, fetch.Options{DownloadTries: test.tries}, handler)
		if err := w.download(t, &stage{}, 0); err == nil || w.requests.Load() != test.want {
			t.Errorf("%d bytes at a time: got %v after %d requests, want %d", test.step, err, w.requests.Load(), test.want)
		}
	}
}

func TestDownloadOfChangingArchive(t *testing.T) {
	other := slices.Clone(archive)
	slices.Reverse(other)
	partOf := func(content []byte, contentRange, etag string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Range", contentRange)
			rw.Header().Set("ETag", etag)
			rw.WriteHeader(http.StatusPartialContent)
			_, _ = rw.Write(content)
		}
	}
	n := len(archive)
	size := strconv.Itoa(n)
	for _, test := range []struct {
		name   string
		second http.HandlerFunc
	}{
		{"new content with status 200", serve(other, `"b"`, time.Time{})},
		{"ranges ignored", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(other) }},
		{"rest of another archive", partOf(other[1000:], "bytes 1000-"+strconv.Itoa(n-1)+"/"+size, `"b"`)},
		{"another range", partOf(other[500:], "bytes 500-"+strconv.Itoa(n-1)+"/"+size, `"a"`)},
		{"shorter range", partOf(other[1000:2000], "bytes 1000-1999/"+size, `"a"`)},
		{"another size", partOf(other[1000:2000], "bytes 1000-1999/2000", `"a"`)},
		{"size unknown", partOf(other[1000:], "bytes 1000-"+strconv.Itoa(n-1)+"/*", `"b"`)},
		{"shorter range, size unknown", partOf(other[1000:2000], "bytes 1000-1999/*", `"a"`)},
		{"no range", partOf(other[1000:], "", `"a"`)},
		{"nonsense", partOf(other[1000:], "bytes -1-5/-9", `"a"`)},
		{"no longer there", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(416) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := cutter(serve(archive, `"a"`, time.Time{}), times(1000))
			var w *world
			w = newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				switch w.requests.Load() {
				case 1:
					first(rw, r)
				case 2:
					sourcetest.Expect(t, r.Header.Get("Range") == "bytes=1000-" && r.Header.Get("If-Range") == `"a"`,
						"asked for %q if it is %q", r.Header.Get("Range"), r.Header.Get("If-Range"))
					test.second(rw, r)
				default:
					serve(other, `"b"`, time.Time{})(rw, r)
				}
			})
			s := w.mustDownload(t, other)
			sourcetest.Expect(t, s.resets == 1, "began again %d times, want once", s.resets)
		})
	}
}

func TestDownloadsThatFail(t *testing.T) {
	for _, test := range []failure{
		{"not found", http.NotFound, 0, nil, "404 Not Found", 1},
		{"forbidden", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(403) }, 0, nil, "403 Forbidden", 2},
		{"broken", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) }, 0, nil, "500", 2},
		{"other size", serve(archive, "", time.Time{}), 5, nil, "1048576 bytes, expected 5", 1},
		{"empty", serve(nil, "", time.Time{}), 5, nil, "an empty answer instead of an archive", 1},
		{"longer than expected", endless, 5, fetch.ErrTooLarge, "more than 5 bytes", 1},
		{"enormous", func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Content-Length", "99999999999") }, 0, fetch.ErrTooLarge, "too large", 1},
		{"gzip bomb", gzipBomb, 5, fetch.ErrTooLarge, "more than 5 bytes", 1},
		{"range that was not requested", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(206) }, 0, nil, "invalid Content-Range", 2},
		{"redirect loop", redirectTo("/"), 0, nil, "more than 10 redirects", 11},
		{"error in JSON", serve([]byte(`{"errors":[{"message":"no license"}]}`), "", time.Time{}), 0, nil, `the message "no license"`, 1},
		{"error in XML", serve([]byte("<Error><Code>NoSuchKey</Code></Error>"), "", time.Time{}), 0, nil, `the message "NoSuchKey"`, 1},
		{"page", serve([]byte("\ufeff<!DOCTYPE html>"), "", time.Time{}), 0, nil, "an HTML page", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, fetch.Options{DownloadTries: 2}, test.handler)
			test.check(t, w, "/x.zip", w.download(t, &stage{}, test.size))
		})
	}
}

// An error of the stage ends a download, and is returned unchanged. One that is too large for it stops before anything is
// stored.
func TestStageThatFails(t *testing.T) {
	full := errors.New("no space left on device")
	for _, s := range []*stage{{refused: full}, {failing: full}} {
		w := newWorld(t, fetch.Options{}, serve(archive, "", time.Time{}))
		err := w.download(t, s, 0)
		sourcetest.Expect(t, err == full && s.Len() == 0 && w.requests.Load() == 1,
			"%v after %d bytes and %d requests", err, s.Len(), w.requests.Load())
	}
}

// A download that has to wait for others emits an event.
func TestWaitingForTurnEmitsEvent(t *testing.T) {
	waiting := make(chan fetch.Event, 1)
	begun := make(chan struct{}, 2)
	w := newWorld(t, fetch.Options{PerHost: 1, Report: func(e fetch.Event) { waiting <- e }}, func(rw http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if r.URL.Path == "/first" {
			e := <-waiting
			sourcetest.Expect(t, e.Try == 0 && strings.HasSuffix(e.URL, "/second") && e.Host != "", "told %+v", e)
		}
		_, _ = rw.Write([]byte("archive"))
	})
	var group sync.WaitGroup
	download := func(path string) {
		sourcetest.Equal(t, w.client.Download(t.Context(), fetch.Archive{URL: w.URL + path}, &stage{}), nil)
	}
	group.Go(func() { download("/first") })
	<-begun
	download("/second?secret")
	group.Wait()
}

// Archives from several hosts that redirect to the same host are limited by that host's number of connections.
func TestDownloadsShareTheLimitOfTheAnsweringHost(t *testing.T) {
	var now, most atomic.Int32
	serve := serve(archive, `"a"`, time.Time{})
	w := newWorld(t, fetch.Options{PerHost: 2}, func(rw http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Host, "cdn.") {
			http.Redirect(rw, r, "https://cdn.example.com/x.zip", http.StatusFound)
			return
		}
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		time.Sleep(10 * time.Millisecond)
		serve(rw, r)
	})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := &stage{slow: time.Millisecond}
			if err := w.client.Download(context.Background(), fetch.Archive{URL: fmt.Sprintf("https://h%d.example.com/x.zip", i)}, s); err != nil || !bytes.Equal(s.Bytes(), archive) {
				t.Errorf("%v, %d bytes", err, s.Len())
			}
		})
	}
	wg.Wait()
	sourcetest.Expect(t, most.Load() <= 2, "%d at a time", most.Load())
}

// The error of a host that supports only HTTP/2 says what to do.
func TestDownloadFromHostWithHTTP2Only(t *testing.T) {
	server := httptest.NewUnstartedServer(serve(archive, `"a"`, time.Time{}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	refusing := server.TLS.Clone() // Go's servers accept clients that offer only HTTP/1.1
	refusing.NextProtos = []string{"none"}
	server.TLS.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, "h2") {
			return nil, nil
		}
		return refusing, nil
	}
	host, _ := sources.ParsePunycodeHost(strings.TrimPrefix(server.URL, "https://"))
	client := fetch.New(fetch.Options{Tries: 1, DownloadTries: 1, Hosts: map[sources.Host]fetch.HostOptions{
		host: {Authorities: []*x509.Certificate{server.Certificate()}},
	}})
	err := client.Download(context.Background(), fetch.Archive{URL: server.URL + "/x.zip"}, &stage{})
	sourcetest.Expect(t, err != nil && strings.Contains(fmt.Sprint(sources.Hints(err)), "allow HTTP/1.1 on the server"), "%v, hints %q", err, sources.Hints(err))
}
