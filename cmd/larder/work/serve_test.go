package work

import (
	"net/netip"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A registry can't lead the server to what only its machine or network reaches.
func TestPrivateAddresses(t *testing.T) {
	s := &Session{expected: func(host string) bool { return host == "named.example" }}
	for _, c := range []struct {
		address string
		private bool
	}{
		{"127.0.0.1", true}, {"::1", true}, {"10.0.0.1", true}, {"192.168.1.1", true}, {"172.16.0.1", true},
		{"169.254.169.254", true}, {"fe80::1", true}, {"fd00::1", true}, {"100.64.0.1", true}, {"0.0.0.0", true}, {"::", true},
		{"224.0.0.1", true}, {"8.8.4.4", false}, {"2001:4860:4860::8844", false},
	} {
		at := netip.MustParseAddr(c.address)
		sourcetest.Expect(t, (s.connect("other.example", at) != nil) == c.private, "%s: %v", at, s.connect("other.example", at))
		sourcetest.Expect(t, s.connect("named.example", at) == nil, "%s of a named host", at)
	}
	sourcetest.Check(t, new(Session).connect("any.example", netip.MustParseAddr("127.0.0.1")))
}
