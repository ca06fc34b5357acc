package fetch_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A stalling server sends the archive, but stalls after a number of bytes on the first connection.
// It answers later requests with other handlers, in order. The last one answers all further ones.
type stalling struct {
	after   int           // bytes of the first answer, after the header
	goesOn  time.Duration // then the first answer goes on; 0 means never
	breaks  time.Duration // then the first connection breaks; 0 means never
	etag    string
	ranges  bool // whether the server supports ranges
	later   []http.HandlerFunc
	asked   load
	open    load
	cancels load // answers whose client left
}

func (s *stalling) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.asked.add(1)
	s.open.add(1)
	defer s.open.add(-1)
	n := s.asked.highest()
	if !s.ranges {
		r.Header.Del("Range")
	}
	if n > 1 && len(s.later) > 0 {
		s.later[min(n-2, len(s.later)-1)](rw, r)
		return
	}
	if n > 1 {
		serve(archive, s.etag, time.Time{})(rw, r)
		return
	}
	if s.etag != "" {
		rw.Header().Set("ETag", s.etag)
	}
	rw.Header().Set("Content-Length", fmt.Sprint(len(archive)))
	_, _ = rw.Write(archive[:s.after])
	rw.(http.Flusher).Flush()
	wait := s.goesOn + s.breaks
	if wait == 0 {
		wait = 24 * time.Hour
	}
	select {
	case <-r.Context().Done():
		s.cancels.add(1)
	case <-time.After(wait):
		if s.breaks > 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = rw.Write(archive[s.after:])
	}
}

// hang sends the beginning of the archive and nothing else.
func hang(n int) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		_, _ = rw.Write(archive[:n])
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

func answerWith(code int, header, value, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		if header != "" {
			rw.Header().Set(header, value)
		}
		rw.WriteHeader(code)
		_, _ = rw.Write([]byte(body))
	}
}

// After fifteen seconds without a byte, a second connection competes with the first. Whatever the
// server does with it, the first goes on.
func TestRivals(t *testing.T) {
	other := bytes.Repeat([]byte("other"), len(archive)/5)
	at := func(s string) time.Duration {
		d, err := time.ParseDuration(s)
		check(t, err)
		return d
	}
	for _, test := range []struct {
		name   string
		server *stalling
		took   string
		asked  int
		want   []byte // nil means the archive
		resets int
	}{
		{name: "headers alone", server: &stalling{}, took: "15s", asked: 2},
		{name: "1,000 bytes", server: &stalling{after: 1000}, took: "15s", asked: 2},
		{name: "1,000 bytes, ranges", server: &stalling{after: 1000, etag: `"a"`, ranges: true}, took: "15s", asked: 2},
		{name: "much", server: &stalling{after: 300_000}, took: "15s", asked: 2, resets: 1},
		{name: "much, ranges", server: &stalling{after: 300_000, etag: `"a"`, ranges: true}, took: "15s", asked: 2},
		{name: "much, no ranges", server: &stalling{after: 300_000, etag: `"a"`}, took: "15s", asked: 2, resets: 1},
		{name: "the end", server: &stalling{after: len(archive) - 1, etag: `"a"`, ranges: true}, took: "15s", asked: 2},
		{name: "another archive", server: &stalling{after: 300_000, etag: `"a"`, ranges: true, later: []http.HandlerFunc{serve(other, `"b"`, time.Time{})}}, took: "15s", asked: 2, want: other, resets: 1},
		{name: "first goes on first", server: &stalling{after: 1000, goesOn: 20 * time.Second, later: []http.HandlerFunc{hang(2000)}}, took: "20s", asked: 2},
		{name: "first goes on much later", server: &stalling{after: 300_000, goesOn: 2 * time.Minute, later: []http.HandlerFunc{hang(310_000)}}, took: "2m", asked: 2},
		{name: "first breaks", server: &stalling{after: 1000, breaks: 20 * time.Second, later: []http.HandlerFunc{func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute)
			serve(archive, "", time.Time{})(rw, r)
		}}}, took: "1m15s", asked: 2},
		{name: "429", server: &stalling{after: 1000, goesOn: 2 * time.Minute, later: []http.HandlerFunc{answerWith(429, "Retry-After", "60", "")}}, took: "2m", asked: 2},
		{name: "503", server: &stalling{after: 300_000, goesOn: 2 * time.Minute, later: []http.HandlerFunc{answerWith(503, "", "", "")}}, took: "2m", asked: 2},
		{name: "404", server: &stalling{after: 1000, goesOn: 2 * time.Minute, later: []http.HandlerFunc{answerWith(404, "", "", "")}}, took: "2m", asked: 2},
		{name: "page", server: &stalling{after: 1000, goesOn: 2 * time.Minute, later: []http.HandlerFunc{answerWith(200, "", "", "<html>log in</html>")}}, took: "2m", asked: 2},
		{name: "nothing", server: &stalling{after: 1000, goesOn: 2 * time.Minute, later: []http.HandlerFunc{answerWith(200, "", "", "")}}, took: "2m", asked: 2},
		{name: "redirect", server: &stalling{after: 1000, goesOn: 2 * time.Minute, later: []http.HandlerFunc{answerWith(302, "Location", "ftp://example.com/", "")}}, took: "2m", asked: 2},
		{name: "other bytes", server: &stalling{after: 300_000, etag: `"a"`, ranges: true, goesOn: 2 * time.Minute, later: []http.HandlerFunc{
			answerWith(206, "Content-Range", fmt.Sprintf("bytes 0-9/%d", len(archive)), "0123456789")}}, took: "2m", asked: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, fetch.Options{}, test.server.ServeHTTP, func(t *testing.T, client *fetch.Client) {
				s, start := &spoolStage{dir: t.TempDir()}, time.Now()
				check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
				sourcetest.Equal(t, time.Since(start), at(test.took), "took")
				want := test.want
				if want == nil {
					want = archive
				}
				sourcetest.Expect(t, bytes.Equal(s.Bytes(), want), "%d other bytes", s.Len())
				sourcetest.Equal(t, s.resets, test.resets, "began again")
				sourcetest.Equal(t, test.server.asked.highest(), test.asked, "requests")
				sourcetest.Expect(t, test.server.open.highest() <= 2, "%d at a time", test.server.open.highest())
			})
		})
	}
}

// A server that sends a little now and then gets few further requests.
func TestRivalsAreFew(t *testing.T) {
	asked := &load{}
	inBubble(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
		asked.add(1)
		rw.Header().Set("Content-Length", fmt.Sprint(len(archive)))
		for rest := archive; len(rest) > 0 && r.Context().Err() == nil; rest = rest[64<<10:] {
			_, _ = rw.Write(rest[:64<<10])
			rw.(http.Flusher).Flush()
			select {
			case <-time.After(20 * time.Second):
			case <-r.Context().Done():
			}
		}
	}, func(t *testing.T, client *fetch.Client) {
		s := &spoolStage{dir: t.TempDir()}
		check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
		sourcetest.Expect(t, bytes.Equal(s.Bytes(), archive), "%d other bytes", s.Len())
		sourcetest.Expect(t, asked.highest() <= 5, "%d requests", asked.highest())
	})
}
