package oci_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Each row is how a registry describes an upload after a break, and what is requested then. The archive has 2 MiB.
func TestResume(t *testing.T) {
	const size = 2 << 20
	again := []string{"POST uploads/", "PATCH 2 0+2097152", "PUT 2"}
	for name, test := range map[string]struct {
		status int
		ranges string
		want   []string
	}{
		"half":        {204, "0-1048575", []string{"PATCH 1 1048576-2097151+1048576", "PUT 1"}},
		"with a unit": {204, "bytes=0-1048575", []string{"PATCH 1 1048576-2097151+1048576", "PUT 1"}},
		"last byte":   {202, "0-2097150", []string{"PATCH 1 2097151-2097151+1", "PUT 1"}},
		"all":         {204, "0-2097151", []string{"PUT 1"}},
		"too much":    {204, "0-2097152", again},
		"nothing":     {204, "0-0", again},
		"no range":    {204, "", again},
		"a part":      {204, "10-20", again},
		"lost":        {404, "", again},
		"elsewhere":   {301, "0-1048575", again},
		"busy":        {503, "0-1048575", []string{"GET 1", "PATCH 1 1048576-2097151+1048576", "PUT 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := sourcetest.New(t)
			var mu sync.Mutex
			var requests []string
			uploads := 0
			w.OCI().Around(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					base, id, upload := strings.Cut(r.URL.Path, "/blobs/uploads/")
					if !upload {
						next.ServeHTTP(rw, r)
						return
					}
					n, _ := io.Copy(io.Discard, r.Body)
					mu.Lock()
					defer mu.Unlock()
					line := r.Method + " " + id
					if id == "" {
						line = r.Method + " uploads/"
					}
					if r.Method == http.MethodPatch {
						at := r.Header.Get("Content-Range")
						if at == "" {
							at = "0"
						}
						line += fmt.Sprintf(" %s+%d", at, n)
					}
					requests = append(requests, line)
					if r.Method == http.MethodPost {
						uploads++
						id = fmt.Sprint(uploads)
					}
					rw.Header().Set("Location", base+"/blobs/uploads/"+id)
					switch {
					case r.Method == http.MethodPatch && len(requests) == 2:
						rw.WriteHeader(http.StatusInternalServerError)
					case r.Method == http.MethodGet:
						rw.Header().Set("Range", test.ranges)
						status := test.status
						if status == 503 && slices.Index(requests, "GET 1") < len(requests)-1 {
							status = 204
						}
						rw.WriteHeader(status)
					case r.Method == http.MethodPut:
						rw.WriteHeader(http.StatusCreated)
					default:
						rw.WriteHeader(http.StatusAccepted)
					}
				})
			})
			var sent atomic.Int64
			p := newPusher(t, w, oci.Access{})
			check(t, p.put(oci.Change{Add: []oci.Added{added("linux_amd64", size)}, Sent: func(n int64) { sent.Add(n) }}))
			sourcetest.EqualSlices(t, requests[:min(3, len(requests))], []string{"POST uploads/", "PATCH 1 0+2097152", "GET 1"}, "requests")
			at := slices.IndexFunc(requests, func(line string) bool { return line == "PUT 1" || line == "PUT 2" })
			sourcetest.EqualSlices(t, requests[3:at+1], test.want, "requests after the status")
			sourcetest.Equal(t, sent.Load(), int64(size), "bytes")
		})
	}
}
