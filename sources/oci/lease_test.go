package oci_test

import (
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// lease checks the text of the lease.
func (p *pusher) lease(want string) {
	p.Helper()
	got, err := p.Lease(p.Context(), sourcetest.Address(p, provider))
	sourcetest.Expect(p, err == nil && got == want, "the lease is %q, %v; want %q", got, err, want)
}

func (p *pusher) setLease(text string) error {
	return p.SetLease(p.Context(), sourcetest.Address(p, provider), text)
}

// A lease is no version, and takes few requests.
func TestLease(t *testing.T) {
	p := newPusher(t, sourcetest.New(t), oci.Access{})
	_, err := p.Look(t.Context(), sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0"), nil, nil)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	p.requests()
	p.lease("")
	check(t, p.setLease("pid 1"))
	sourcetest.Equal(t, p.requests(),
		"GET manifests/larder-lease 1, HEAD blobs/ 1, POST blobs/ 1, PUT blobs/ 1, PUT manifests/larder-lease 1", "first lease")
	p.lease("pid 1")
	check(t, p.setLease("pid 1, again"))
	sourcetest.Equal(t, p.requests(), "GET manifests/larder-lease 1, PUT manifests/larder-lease 1", "renewed lease")

	check(t, p.put(oci.Change{Add: []oci.Added{added("linux_amd64", 10)}}))
	newPusher(t, p.world, oci.Access{}).lease("pid 1, again")
	check(t, p.setLease(""))
	p.lease("")
	l, err := p.Versions(t.Context(), sourcetest.Address(t, provider))
	sourcetest.Expect(t, err == nil && len(l.Versions) == 1, "versions %v, %v", l.Versions, err)
}
