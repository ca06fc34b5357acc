package sources

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// A Hash is a package hash as lock files and mirrors state it, SCHEME:VALUE:
// zh: of the archive, h1: of the contents. Other schemes are carried along and
// match nothing. The zero Hash is no hash.
type Hash string

// maxHash is more bytes than a hash of any scheme will need.
const maxHash = 1024

// ParseHash checks that s has a scheme.
func ParseHash(s string) (Hash, error) {
	if strings.IndexByte(s, ':') < 1 {
		return "", WithHint(fmt.Errorf("hash %.80q: no scheme", s),
			"a hash starts with its scheme, as in h1: or zh:")
	}
	if len(s) > maxHash {
		return "", fmt.Errorf("hash %.80q: %d bytes long", s, len(s))
	}
	return Hash(s), nil
}

// ZipHash is the zh: hash of an archive whose SHA-256 is sum.
func ZipHash(sum [32]byte) Hash { return Hash("zh:" + hex.EncodeToString(sum[:])) }

// Scheme is what stands before the colon.
func (h Hash) Scheme() string {
	scheme, _, _ := strings.Cut(string(h), ":")
	return scheme
}

// Usable reports whether h is of a scheme we can compute: h1: or zh:.
func (h Hash) Usable() bool { return h.Scheme() == "h1" || h.Scheme() == "zh" }
