package fetch_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestDownloadResumesEarlierDownload(t *testing.T) {
	const half = 1 << 19
	other := bytes.Repeat([]byte("x"), half)
	for _, test := range []struct {
		name      string
		kept      []byte
		validator string
		asked     string // the Range header
		resets    int
		whole     bool
	}{
		{"nothing kept", nil, "", beginning, 0, false},
		{"nothing kept, from a mirror", nil, "", "", 0, true},
		{"half", archive[:half], `"a"`, "bytes=524288-", 0, false},
		{"half of another archive", other, `"b"`, "bytes=524288-", 1, true},
		{"no validator", other, "", beginning, 1, false},
		{"invalid validator", other, "\"a\n\"", beginning, 1, false},
		{"all of it", archive, `"a"`, "bytes=1048576-", 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := ""
			serve := serve(archive, `"a"`, time.Time{})
			w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				asked += r.Header.Get("Range")
				serve(rw, r)
			})
			s := &stage{validator: test.validator}
			s.Buffer.Write(test.kept)
			check(t, w.client.Download(context.Background(), fetch.Archive{URL: w.URL + "/x.zip", Whole: test.whole}, s))
			if !bytes.Equal(s.Bytes(), archive) || asked != test.asked || s.resets != test.resets || s.validator != `"a"` || s.expected != int64(len(archive)) {
				t.Errorf("got %d bytes of %d, asked for %q, %d resets, keeps them as of %q", s.Len(), s.expected, asked, s.resets, s.validator)
			}
		})
	}
}

func TestDownloadInPieces(t *testing.T) {
	const piece = 300_000
	w := newWorld(t, fetch.Options{}, func(rw http.ResponseWriter, r *http.Request) {
		first := 0
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &first)
		last := min(first+piece, len(archive)) - 1
		rw.Header().Set("ETag", `"a"`)
		rw.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(archive)))
		rw.WriteHeader(http.StatusPartialContent)
		_, _ = rw.Write(archive[first : last+1])
	})
	s := w.mustDownload(t, archive)
	sourcetest.Expect(t, s.resets == 0 && w.requests.Load() == 5, "%d requests, %d resets", w.requests.Load(), s.resets)
}
