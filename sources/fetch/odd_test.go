package fetch_test

import (
	"net/http"
	"strconv"
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
