package site

import (
	"fmt"
	"net/netip"

	"github.com/larder-cli/larder/sources"
)

// Connect returns an error for a private address of a host that nothing names. Otherwise a registry could have the
// server fetch what only this machine or its network can reach, and clients would get it.
func (s *Site) Connect(host string, at netip.Addr) error {
	private := at.IsPrivate() || at.IsLoopback() || at.IsLinkLocalUnicast() || at.IsUnspecified() ||
		at.IsMulticast() || sharedAddresses.Contains(at)
	if !private || s.Expected == nil || s.Expected(host) {
		return nil
	}
	err := fmt.Errorf("%s has the private address %s, and nothing in the configuration names the host", host, at)
	return sources.WithHint(err, "if the server may fetch from it, add host %q {} to Larder's config.hcl", host)
}

// sharedAddresses are those of carriers, which are not public (RFC 6598).
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")
