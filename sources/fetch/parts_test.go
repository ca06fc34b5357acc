package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A spoolStage can create a spool.
type spoolStage struct {
	stage
	dir    string
	spools int
	full   bool
}

type spool struct{ *os.File }

func (s spool) Close() error { return errors.Join(s.File.Close(), os.Remove(s.Name())) }

func (s *spoolStage) Spool(int64) (sources.Spool, error) {
	if s.full {
		return nil, errors.New("no room")
	}
	s.spools++
	f, err := os.Create(filepath.Join(s.dir, "spool"))
	return spool{f}, err
}

// beginning is the Range of the first request for an archive.
const beginning = "bytes=0-6291455"

// large is an archive that is worth several connections to a slow server.
var large = func() []byte {
	random := rand.NewChaCha8([32]byte{1})
	b := make([]byte, 24<<20)
	_, _ = random.Read(b)
	return b
}()

// If a server permits only one connection, or answers requests for parts badly, the data from the first connection is
// kept, and that connection downloads the rest with little delay.
func TestLargeArchiveFromSlowServerUsesParts(t *testing.T) {
	type fault = func(n int, rw http.ResponseWriter, r *http.Request) bool
	parts := func(answer http.HandlerFunc) fault {
		return func(_ int, rw http.ResponseWriter, r *http.Request) bool {
			asked := r.Header.Get("Range")
			part := asked != "" && !strings.HasSuffix(asked, "-") && asked != beginning
			if part {
				answer(rw, r)
			}
			return part
		}
	}
	lie := func(format string, args ...any) fault {
		return parts(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", fmt.Sprintf(format, args...))
			rw.WriteHeader(http.StatusPartialContent)
			_, _ = rw.Write(make([]byte, 100))
		})
	}
	for _, test := range []struct {
		name   string
		fault  fault
		opts   fetch.Options
		full   bool
		parts  bool // whether most of it is downloaded in parts
		whole  int  // number of requests for the beginning, the rest or the whole of the archive
		resets int
	}{
		{name: "no fault", parts: true, whole: 1},
		{name: "no room for a spool", full: true, whole: 2},
		{name: "no more connections", opts: fetch.Options{PerHost: 1}, whole: 2},
		{name: "cut now and then", parts: true, whole: 1, fault: func(n int, rw http.ResponseWriter, r *http.Request) bool {
			if n%2 == 1 {
				return false
			}
			rw.Header().Set("ETag", `"a"`)
			cutter(serve(large, `"a"`, time.Time{}), func(int) int { return 1<<20 + 77*n })(rw, r)
			return true
		}},
		{name: "less than asked for", parts: true, whole: 1, fault: func(_ int, _ http.ResponseWriter, r *http.Request) bool {
			first, last := 0, 0
			if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); n == 2 && first > 0 {
				r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", first, min(last, first+300_000)))
			}
			return false
		}},
		{name: "unavailable once", parts: true, whole: 1, fault: func(n int, rw http.ResponseWriter, _ *http.Request) bool {
			if n == 3 {
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
			return n == 3
		}},
		{name: "parts forbidden", whole: 2, fault: parts(status(http.StatusForbidden))},
		{name: "parts unavailable", whole: 2, fault: parts(status(http.StatusServiceUnavailable))},
		{name: "parts unavailable for long", whole: 2, fault: parts(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "100")
			rw.WriteHeader(http.StatusTooManyRequests)
		})},
		{name: "parts that don't arrive", whole: 2, fault: parts(silent)},
		{name: "parts that break", whole: 2, fault: parts(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })},
		{name: "parts ignored", whole: 2, fault: parts(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(large[:100]) })},
		{name: "other part", whole: 2, fault: lie("bytes 5-104/%d", len(large))},
		{name: "part of a larger archive", whole: 2, fault: lie("bytes 0-99/%d", len(large)+1)},
		{name: "invalid part", whole: 2, fault: lie("bytes x")},
		{name: "changed in the meantime", whole: 2, resets: 1, fault: func(n int, rw http.ResponseWriter, r *http.Request) bool {
			if n > 1 {
				serve(large, `"b"`, time.Time{})(rw, r)
			}
			return n > 1
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := &limitedServer{fault: test.fault}
			s := &spoolStage{dir: t.TempDir(), full: test.full}
			inBubble(t, test.opts, server.ServeHTTP, func(t *testing.T, client *fetch.Client) {
				start := time.Now()
				check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
				took, limit := time.Since(start), time.Duration(len(large))*time.Second>>21+16*time.Second
				sourcetest.Expect(t, took <= limit, "took %s, more than %s with one connection", took, limit)
			})
			left, _ := os.ReadDir(s.dir)
			sourcetest.Expect(t, len(left) == 0, "left %v", left)
			sourcetest.Expect(t, bytes.Equal(s.Bytes(), large) && s.resets == test.resets,
				"got %d bytes, %d resets", s.Len(), s.resets)
			sourcetest.Expect(t, server.whole == test.whole && (server.n-server.whole > 3 || !test.parts),
				"%d requests, %d for all of it", server.n, server.whole)
		})
	}
}

// A server that doesn't send the beginning of an archive is asked for all of it.
func TestServersWithoutTheBeginning(t *testing.T) {
	whole := serve(large, `"a"`, time.Time{})
	for name, answer := range map[string]http.HandlerFunc{
		"forbidden": status(http.StatusForbidden), "not supported": status(http.StatusRequestedRangeNotSatisfiable),
		"unavailable": status(http.StatusServiceUnavailable),
		"breaks":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"ignored":     whole, "no validator": serve(large, "", time.Time{}),
		"no total": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", "bytes 0-99/*")
			rw.WriteHeader(http.StatusPartialContent)
			_, _ = rw.Write(large[:100])
		},
		"too much": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%[1]d", len(large)-1))
			rw.WriteHeader(http.StatusPartialContent)
			_, _ = rw.Write(large)
		},
		"too little": func(rw http.ResponseWriter, r *http.Request) {
			first := 0
			_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &first)
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", first, first+99_999))
			whole(rw, r)
		},
		"all in spite of the range": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("ETag", `"a"`)
			rw.Header().Set("Content-Range", fmt.Sprintf("bytes 0-6291455/%d", len(large)))
			rw.Header().Set("Content-Length", fmt.Sprint(len(large)))
			rw.WriteHeader(http.StatusPartialContent)
			_, _ = rw.Write(large)
		},
		"compressed": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			_, _ = rw.Write(large[:100])
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &spoolStage{dir: t.TempDir()}
			inBubble(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") != "" {
					r.Header.Del(map[bool]string{true: "Range"}[name == "ignored"])
					answer(rw, r)
					return
				}
				whole(rw, r)
			}, func(t *testing.T, client *fetch.Client) {
				check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
			})
			sourcetest.Expect(t, bytes.Equal(s.Bytes(), large), "got %d bytes", s.Len())
		})
	}
}

// Servers behind one address that have different validators, and send ranges regardless of them, are asked for all of it.
func TestServersWithOtherValidators(t *testing.T) {
	var n atomic.Int32
	s := &spoolStage{dir: t.TempDir()}
	inBubble(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-Range")
		serve(large, fmt.Sprintf(`"%d"`, n.Add(1)), time.Time{})(rw, r)
	}, func(t *testing.T, client *fetch.Client) {
		check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
	})
	sourcetest.Expect(t, bytes.Equal(s.Bytes(), large) && n.Load() == 3, "got %d bytes, %d requests", s.Len(), n.Load())
}

// A connection that delivers nothing, or almost nothing, costs a timeout and one more request, whichever connection
// it is.
func TestPartsDoNotWaitForOneOfThem(t *testing.T) {
	const crawl, stop = 4 << 10, 1 // in bytes a second
	last := fmt.Sprintf("-%d", len(large)-1)
	for _, test := range []struct {
		name string
		slow func(n int, asked string) bool
		rate int
	}{
		{"first crawls", func(n int, _ string) bool { return n == 1 }, crawl},
		{"first stops", func(n int, _ string) bool { return n == 1 }, stop},
		{"another crawls", func(n int, _ string) bool { return n == 5 }, crawl},
		{"another stops", func(n int, _ string) bool { return n == 5 }, stop},
		{"last crawls", func(_ int, asked string) bool { return strings.HasSuffix(asked, last) }, crawl},
		{"last stops", func(_ int, asked string) bool { return strings.HasSuffix(asked, last) }, stop},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := &limitedServer{slow: test.slow, rate: test.rate}
			s := &spoolStage{dir: t.TempDir()}
			inBubble(t, fetch.Options{}, server.ServeHTTP, func(t *testing.T, client *fetch.Client) {
				start := time.Now()
				check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
				took := time.Since(start)
				sourcetest.Expect(t, took <= 22*time.Second, "took %s", took)
			})
			sourcetest.Expect(t, bytes.Equal(s.Bytes(), large) && server.whole <= 2 && server.slowed == 1,
				"got %d bytes, asked for all %d times, slow %d times", s.Len(), server.whole, server.slowed)
		})
	}
}

// Large archives arrive one after another, each over several connections, so that the first ones can be unpacked early.
// Nothing is sent twice.
func TestLargeArchivesArriveInTurn(t *testing.T) {
	const archives = 6
	server := &limitedServer{}
	var arrived []time.Duration
	inBubble(t, fetch.Options{}, server.ServeHTTP, func(t *testing.T, client *fetch.Client) {
		var group sync.WaitGroup
		var mu sync.Mutex
		start := time.Now()
		for range archives {
			s := &spoolStage{dir: t.TempDir()}
			group.Go(func() {
				check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
				mu.Lock()
				defer mu.Unlock()
				arrived = append(arrived, time.Since(start))
			})
		}
		group.Wait()
	})
	first, last := arrived[0], arrived[archives-1]
	sourcetest.Expect(t, first < last*3/4 && last < 7*time.Second, "the first after %s, the last after %s", first, last)
	sourcetest.Equal(t, server.sent, archives*len(large), "bytes sent")
}

// Archives don't wait for each other if each arrives over one connection, as from a host that was just unavailable.
func TestLargeArchivesDoNotWaitForSingleConnections(t *testing.T) {
	server := &limitedServer{fault: func(n int, rw http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		return n == 1
	}}
	inBubble(t, fetch.Options{}, server.ServeHTTP, func(t *testing.T, client *fetch.Client) {
		var group sync.WaitGroup
		start := time.Now()
		for range 8 {
			s := &spoolStage{dir: t.TempDir()}
			group.Go(func() { check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s)) })
		}
		group.Wait()
		took := time.Since(start)
		sourcetest.Expect(t, took < 16*time.Second, "took %s, and each archive takes 12 s", took)
	})
}

// An archive uses several connections only if enough are left of those that the host permits: here eight.
func TestPartsLeaveConnectionsToOtherArchives(t *testing.T) {
	for others, parts := range map[int]bool{39: true, 40: false} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			server := &limitedServer{}
			var begun, end chan bool
			answer := func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/x.zip" {
					server.ServeHTTP(rw, r)
					return
				}
				begun <- true
				<-end
				_, _ = rw.Write([]byte("archive"))
			}
			s := &spoolStage{dir: t.TempDir()}
			inBubble(t, fetch.Options{}, answer, func(t *testing.T, client *fetch.Client) {
				begun, end = make(chan bool), make(chan bool) // of the bubble
				var group sync.WaitGroup
				for range others {
					group.Go(func() {
						check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/other"}, &stage{}))
					})
				}
				for range others {
					<-begun
				}
				check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
				close(end)
				group.Wait()
			})
			sourcetest.Expect(t, (server.n > 2) == parts && bytes.Equal(s.Bytes(), large),
				"%d requests, parts %v; got %d bytes", server.n, parts, s.Len())
		})
	}
}

// A limitedServer limits each connection to 2 MiB a second, and one of them to much less.
type limitedServer struct {
	fault func(n int, rw http.ResponseWriter, r *http.Request) bool // reports whether it has answered the request; may be nil
	slow  func(n int, asked string) bool                            // may be nil
	rate  int                                                       // of the slow connection in bytes a second, after half a MiB

	mu               sync.Mutex
	n, whole, slowed int // numbers of requests
	sent             int // bytes
}

func (s *limitedServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	asked := r.Header.Get("Range")
	s.mu.Lock()
	s.n++
	if asked == "" || asked == beginning || strings.HasSuffix(asked, "-") {
		s.whole++
	}
	slow := s.slow != nil && s.slowed == 0 && s.slow(s.n, asked)
	if slow {
		s.slowed++
	}
	n := s.n
	s.mu.Unlock()
	if s.fault != nil && s.fault(n, rw, r) {
		return
	}
	w := &limited{ResponseWriter: rw, gone: r.Context().Done(), fast: len(large), rate: s.rate}
	if slow {
		w.fast = 1 << 19
	}
	rw.Header().Set("ETag", `"a"`)
	http.ServeContent(w, r, "x.zip", time.Time{}, bytes.NewReader(large))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += w.sent
}

type limited struct {
	http.ResponseWriter
	gone <-chan struct{}
	fast int // bytes sent at 2 MiB a second
	rate int // of the rest
	sent int // bytes
}

func (w *limited) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		piece, wait := min(len(b), w.fast, 32<<10), time.Second/64
		if piece == 0 {
			piece, wait = 1, time.Second/time.Duration(w.rate)
		}
		select {
		case <-time.After(wait):
		case <-w.gone:
			return n, context.Canceled
		}
		w.fast = max(0, w.fast-piece)
		var m int
		m, err = w.ResponseWriter.Write(b[:piece])
		n, b, w.sent = n+m, b[piece:], w.sent+m
	}
	return n, err
}

func TestPartsNameTheFailingHost(t *testing.T) {
	var failed []string
	opts := fetch.Options{Report: func(e fetch.Event) { failed = append(failed, e.Host) }}
	server := &limitedServer{}
	inBubble(t, opts, func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host == "example.com":
			http.Redirect(rw, r, "http://example.net/x.zip", http.StatusFound)
		case strings.HasSuffix(r.Header.Get("Range"), fmt.Sprintf("-%d", len(large)-1)) && len(failed) == 0:
			rw.WriteHeader(http.StatusServiceUnavailable)
		default:
			server.ServeHTTP(rw, r)
		}
	}, func(t *testing.T, client *fetch.Client) {
		err := client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, &spoolStage{dir: t.TempDir()})
		sourcetest.Expect(t, err == nil && strings.Join(failed, " ") == "example.net", "%v, and %q failed", err, failed)
	})
}

func TestPartsEndWhenCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := &limitedServer{fault: func(n int, _ http.ResponseWriter, _ *http.Request) bool {
		if n == 4 {
			cancel()
		}
		return false
	}}
	s := &spoolStage{dir: t.TempDir()}
	inBubble(t, fetch.Options{}, server.ServeHTTP, func(t *testing.T, client *fetch.Client) {
		err := client.Download(ctx, fetch.Archive{URL: "http://example.com/x.zip"}, s)
		sourcetest.Expect(t, errors.Is(err, context.Canceled) && bytes.HasPrefix(large, s.Bytes()),
			"%v, with %d bytes", err, s.Len())
	})
	left, _ := os.ReadDir(s.dir)
	sourcetest.Expect(t, len(left) == 0, "left %v", left)
}
