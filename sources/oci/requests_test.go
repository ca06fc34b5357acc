package oci_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var endOfPath = regexp.MustCompile(`sha256[:-].*|uploads/.*`)

// requests returns METHOD PATH COUNT of the requests that the registry has got since the last call, without digests.
func (p *pusher) requests() string {
	counts := map[string]int{}
	for _, r := range p.world.OCI().Requests() {
		_, path, _ := strings.Cut(r.Path, provider+"/")
		counts[r.Method+" "+endOfPath.ReplaceAllString(path, "")]++
	}
	p.world.OCI().Forget()
	var all []string
	for _, request := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprint(request, " ", counts[request]))
	}
	return strings.Join(all, ", ")
}

// A push sends few requests. A blob is looked for and pushed once for each repository.
func TestRequestsOfPush(t *testing.T) {
	w := sourcetest.New(t)
	id := sourcetest.Address(t, provider)
	linux, darwin, other := added("linux_amd64", 3<<20), added("darwin_arm64", 3<<20), added("linux_amd64", 100)
	files, err := evidence.Pack(&sources.Signed{Sums: []byte("x"), Signature: []byte("y"), Keys: []sources.Key{{Armor: "z"}}})
	check(t, err)
	push := func(want string, p *pusher, version string, files *evidence.Files, all ...oci.Added) { // the last one
		t.Helper()
		v := sourcetest.Number(t, version)
		_, _ = p.Look(t.Context(), id, v, all, files)
		check(t, p.Put(t.Context(), id, v, oci.Change{Add: all[len(all)-1:], Signed: files}))
		sourcetest.Equal(t, strings.ReplaceAll(p.requests(), version, "TAG"), want)
	}
	const look, put = "GET manifests/TAG 1, ", "PUT manifests/ 1, PUT manifests/TAG 1"
	first, second := newPusher(t, w, oci.Access{}), newPusher(t, w, oci.Access{})
	push(look+"GET tags/list 1, HEAD blobs/ 2, POST blobs/ 2, PUT blobs/ 2, "+put, first, "1.0.0", nil, linux)
	push(look+"GET referrers/ 1, HEAD blobs/ 1, POST blobs/ 1, PUT blobs/ 1, "+put, first, "1.0.0", nil, linux, darwin)
	push(look+put, first, "2.0.0", nil, darwin) // which is there

	// Another process looks for blobs.
	push(look+"GET referrers/ 1, HEAD blobs/ 2, POST blobs/ 1, PUT blobs/ 1, "+put, second, "2.0.0", nil, darwin, other)
	const more = "PUT manifests/ 2, PUT manifests/TAG 1"
	push("GET manifests/2.0.0 1, "+look+"GET tags/list 1, HEAD blobs/ 4, POST blobs/ 4, PUT blobs/ 4, "+more,
		second, "3.0.0", &files, other)
	push("GET manifests/ 1, "+look+"GET referrers/ 1, HEAD blobs/ 1, "+more, second, "3.0.0", nil, other, darwin)

	// A process that doesn't know whether the registry knows referrers also stores them under a tag.
	w = sourcetest.New(t)
	push("GET manifests/ 1, "+look+"GET tags/list 1, HEAD blobs/ 6, POST blobs/ 6, PUT blobs/ 6, PUT manifests/ 3, PUT manifests/TAG 1",
		newPusher(t, w, oci.Access{}), "1.0.0", &files, linux)
}

// An archive of several repositories is sent once to a registry that can mount it, and otherwise to each of them. Another
// process that has seen it mounts it as well.
func TestMounts(t *testing.T) {
	for _, refuses := range []int{0, http.StatusAccepted, http.StatusForbidden} {
		w := sourcetest.New(t)
		var sent atomic.Int64 // bytes of blobs
		wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			mounts := r.Method == http.MethodPost && r.URL.Query().Has("mount")
			switch {
			case mounts && refuses == http.StatusForbidden:
				refuse(refuses, "DENIED", "not from there")(rw, r)
				return
			case mounts && refuses != 0:
				r.URL.RawQuery = ""
			case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/blobs/"):
				sent.Add(r.ContentLength)
			}
			next.ServeHTTP(rw, r)
		})
		a, times := added("linux_amd64", 3<<20), int64(1)
		if refuses != 0 {
			times = 3
		}
		var done atomic.Int64
		put := func(p *pusher, host string) {
			id := sourcetest.Address(t, host+"/acme/widget")
			c := oci.Change{Add: []oci.Added{a}, Sent: func(n int64) { done.Add(n) }}
			check(t, p.Put(t.Context(), id, sourcetest.Number(t, "1.0.0"), c))
		}
		p, another := newPusher(t, w, oci.Access{}), newPusher(t, w, oci.Access{})
		var both sync.WaitGroup
		for _, host := range []string{"registry.opentofu.org", "registry.terraform.io"} {
			both.Go(func() { put(p, host) })
		}
		both.Wait()
		_, err := another.Look(t.Context(), sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0"), []oci.Added{a}, nil)
		check(t, err)
		put(another, "example.com")
		sourcetest.Equal(t, sent.Load()/a.Size, times, "archives sent with refusal", refuses)
		sourcetest.Equal(t, done.Load(), 3*a.Size, "reported bytes with refusal", refuses)
		sourcetest.EqualSlices(t, p.archives(), texts(a), "archives")
	}
}
