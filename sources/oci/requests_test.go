package oci_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
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
		check(t, put(t, p.Mirror, id, v, oci.Change{Add: all[len(all)-1:], Signed: files}))
		sourcetest.Equal(t, strings.ReplaceAll(p.requests(), version, "TAG"), want)
	}
	const look, store = "GET manifests/TAG 1, ", "PUT manifests/ 1, PUT manifests/TAG 1"
	first, second := newPusher(t, w, oci.Access{}), newPusher(t, w, oci.Access{})
	push(look+"GET tags/list 1, HEAD blobs/ 2, POST blobs/ 2, PUT blobs/ 2, "+store, first, "1.0.0", nil, linux)
	push(look+"GET referrers/ 1, HEAD blobs/ 1, POST blobs/ 1, PUT blobs/ 1, "+store, first, "1.0.0", nil, linux, darwin)
	push(look+"HEAD blobs/ 1, "+store, first, "2.0.0", nil, darwin) // which is there

	// Another process looks for blobs.
	push(look+"GET referrers/ 1, HEAD blobs/ 2, POST blobs/ 1, PUT blobs/ 1, "+store, second, "2.0.0", nil, darwin, other)
	const more = "PUT manifests/ 2, PUT manifests/TAG 1"
	push("GET manifests/2.0.0 1, "+look+"GET tags/list 1, HEAD blobs/ 5, POST blobs/ 4, PUT blobs/ 4, "+more,
		second, "3.0.0", &files, other)
	push("GET manifests/ 1, "+look+"GET referrers/ 1, HEAD blobs/ 5, "+more, second, "3.0.0", nil, other, darwin)

	// A process that doesn't know whether the registry knows referrers also stores them under a tag.
	w = sourcetest.New(t)
	push("GET manifests/ 1, "+look+"GET tags/list 1, HEAD blobs/ 6, POST blobs/ 6, PUT blobs/ 6, PUT manifests/ 3, PUT manifests/TAG 1",
		newPusher(t, w, oci.Access{}), "1.0.0", &files, linux)
}
