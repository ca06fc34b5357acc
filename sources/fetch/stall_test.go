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

// After fifteen seconds without a byte, a connection is given up, and a new one downloads what is missing.
func TestStalledConnections(t *testing.T) {
	other := bytes.Repeat([]byte("other"), len(archive)/5)
	for _, test := range []struct {
		name   string
		after  int    // bytes of the first answer
		etag   string // of the first answer; empty means that the server supports no ranges
		then   http.HandlerFunc
		want   []byte
		resets int
	}{
		{name: "headers alone"},
		{name: "1,000 bytes", after: 1000, resets: 1},
		{name: "1,000 bytes, ranges", after: 1000, etag: `"a"`},
		{name: "much", after: 300_000, resets: 1},
		{name: "much, ranges", after: 300_000, etag: `"a"`},
		{name: "the end", after: len(archive) - 1, etag: `"a"`},
		{name: "another archive", after: 300_000, etag: `"a"`, then: serve(other, `"b"`, time.Time{}), want: other, resets: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			inBubble(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				switch asked++; {
				case asked == 1:
					if test.etag != "" {
						rw.Header().Set("ETag", test.etag)
					}
					rw.Header().Set("Content-Length", fmt.Sprint(len(archive)))
					_, _ = rw.Write(archive[:test.after])
					rw.(http.Flusher).Flush()
					<-r.Context().Done()
				case test.then != nil:
					test.then(rw, r)
				default:
					serve(archive, test.etag, time.Time{})(rw, r)
				}
			}, func(t *testing.T, client *fetch.Client) {
				s, start := &stage{}, time.Now()
				check(t, client.Download(t.Context(), fetch.Archive{URL: "http://example.com/x.zip"}, s))
				took := time.Since(start)
				sourcetest.Expect(t, took >= 15*time.Second && took <= 16*time.Second, "took %s", took)
				if test.want == nil {
					test.want = archive
				}
				sourcetest.Expect(t, bytes.Equal(s.Bytes(), test.want), "%d other bytes", s.Len())
				sourcetest.Equal(t, s.resets, test.resets, "began again")
				sourcetest.Equal(t, asked, 2, "requests")
			})
		})
	}
}
