package fetch_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A server that answers requests for the rest of an archive badly, in whichever way, still has the whole of it.
func TestServersWithoutTheRest(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"401":     status(401),
		"412":     status(412),
		"416":     status(416),
		"500":     status(500),
		"501":     status(501),
		"503":     status(503),
		"204":     status(204),
		"304":     status(304),
		"nothing": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"empty part": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", fmt.Sprintf("bytes 100000-%d/%d", len(archive)-1, len(archive)))
			rw.WriteHeader(http.StatusPartialContent)
		},
		"page": func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("<html>")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") != "" {
					answer(rw, r)
					return
				}
				serve(archive, `"a"`, time.Time{})(rw, r)
			})
			s := &stage{validator: `"a"`}
			s.Buffer.Write(archive[:100_000])
			sourcetest.Check(t, w.download(t, s, 0))
			sourcetest.Expect(t, s.String() == string(archive), "%d bytes", s.Len())
			sourcetest.Expect(t, w.requests.Load() <= 4, "%d requests", w.requests.Load())
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(code) }
}

// A server that is out of order for a while costs nothing of what has arrived.
func TestOutageLeavesWhatThereIs(t *testing.T) {
	asked := 0
	w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
		if asked++; asked <= 4 {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		serve(archive, `"a"`, time.Time{})(rw, r)
	})
	s := &stage{validator: `"a"`}
	s.Buffer.Write(archive[:100_000])
	sourcetest.Check(t, w.download(t, s, 0))
	sourcetest.Expect(t, s.String() == string(archive) && s.resets == 0, "%d bytes, %d resets", s.Len(), s.resets)
}

// Scanners hold an archive back, at its beginning or its end. Those that send a byte now and then get minutes over one
// connection. The others get twice as long over each connection.
func TestPatienceWithScanners(t *testing.T) {
	send := func(rw http.ResponseWriter, b []byte) {
		_, _ = rw.Write(b)
		rw.(http.Flusher).Flush()
	}
	wait := func(r *http.Request, d time.Duration) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	for name, test := range map[string]struct {
		took    time.Duration
		asked   int
		handler http.HandlerFunc
	}{
		"headers first": {(15 + 30 + 60 + 110) * time.Second, 4, func(rw http.ResponseWriter, r *http.Request) {
			send(rw, nil)
			wait(r, 110*time.Second)
			send(rw, archive)
		}},
		"a byte now and then": {100 * time.Second, 1, func(rw http.ResponseWriter, r *http.Request) {
			for i := range 10 {
				send(rw, archive[i:i+1])
				wait(r, 10*time.Second)
			}
			send(rw, archive[10:])
		}},
		"a byte even less often": {(15 + 160) * time.Second, 2, func(rw http.ResponseWriter, r *http.Request) {
			for i := range 8 {
				send(rw, archive[i:i+1])
				wait(r, 20*time.Second)
			}
			send(rw, archive[8:])
		}},
		"the end late": {(15 + 30 + 60 + 110) * time.Second, 4, func(rw http.ResponseWriter, r *http.Request) {
			send(rw, archive[:len(archive)-1000])
			wait(r, 110*time.Second)
			send(rw, archive[len(archive)-1000:])
		}},
		"slowly": {40 * time.Second, 1, func(rw http.ResponseWriter, r *http.Request) {
			for rest := archive[:20_000]; len(rest) > 0; rest = rest[500:] {
				send(rw, rest[:500])
				wait(r, time.Second)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked, most load
			var backoff time.Duration
			sleep := func(_ context.Context, d time.Duration) error {
				backoff += d
				time.Sleep(d)
				return nil
			}
			inBubble(t, fetch.Options{Sleep: sleep}, func(rw http.ResponseWriter, r *http.Request) {
				asked.add(1)
				most.add(1)
				defer most.add(-1)
				test.handler(rw, r)
			}, func(t *testing.T, client *fetch.Client) {
				s, start := &stage{}, time.Now()
				sourcetest.Check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
				sourcetest.Equal(t, time.Since(start)-backoff, test.took, "took")
				sourcetest.Expect(t, strings.HasPrefix(string(archive), s.String()) && s.Len() >= 20_000, "%d bytes", s.Len())
				sourcetest.Equal(t, asked.highest(), test.asked, "requests")
				sourcetest.Expect(t, most.highest() == 1, "%d at a time", most.highest())
			})
		})
	}
}

// A load counts, and has the highest count.
type load struct {
	mu        sync.Mutex
	now, most int
}

func (l *load) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now += n
	l.most = max(l.most, l.now)
}

func (l *load) highest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

// Secrets that were sent aren't in messages of servers that repeat them.
func TestMessagesHoldNoSecrets(t *testing.T) {
	for _, body := range []string{"token s3cr3t-token", "Bearer s3cr3t-token", "no signature SIGSECRET", "not found: /x.zip?sig=SIGSECRET", strings.Repeat("x", 194) + " s3cr3t-token"} {
		w := newWorld(t, fetch.Options{Tries: 1, DownloadTries: 1, Token: func(context.Context, sources.Host) (string, bool, error) { return "s3cr3t-token", true, nil }},
			func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/plain")
				rw.WriteHeader(http.StatusForbidden)
				_, _ = rw.Write([]byte(body))
			})
		_, err := w.client.Document(t.Context(), fetch.Request{URL: w.URL + "/?sig=SIGSECRET", Credentials: true})
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "…") && !strings.Contains(err.Error(), "s3cr3t") && !strings.Contains(err.Error(), "SIGSECRET"), "%v", err)
	}
}
