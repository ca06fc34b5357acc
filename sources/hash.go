package sources

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// The schemes that Larder computes. No other package spells them out.
const (
	H1 = "h1" // SHA-256 of the list of a package's files, in base64
	ZH = "zh" // SHA-256 of the package's archive, in hexadecimal digits
)

// A Hash is a package hash as written in lock files and by mirrors,
// SCHEME:VALUE. Hashes of schemes other than [H1] and [ZH] are preserved and
// match nothing. The zero Hash is not a hash.
type Hash string

// MaxSums limits SHA256SUMS, in bytes. Real ones have a few kilobytes.
const MaxSums = 256 << 10

// maxHash is the greatest length of a hash, in bytes. No scheme needs that
// many.
const maxHash = 1024

// ParseHash checks that s has a scheme. Engines check no more than that when
// they read a lock file; [Hash.Sum] checks the value as well.
func ParseHash(s string) (Hash, error) {
	if strings.IndexByte(s, ':') < 1 {
		return "", WithHint(fmt.Errorf("hash %.80q: no scheme", s),
			"a hash starts with its scheme, as in %s: or %s:", H1, ZH)
	}
	if len(s) > maxHash {
		return "", fmt.Errorf("hash %.80q: too long (%d bytes)", s, len(s))
	}
	return Hash(s), nil
}

// Canonical returns h with the hexadecimal digits of a zh: hash in lower case,
// as engines write them. Digits in upper case mean the same checksum.
func (h Hash) Canonical() Hash {
	if h.Scheme() == ZH {
		return Hash(strings.ToLower(string(h)))
	}
	return h
}

// ZipHash returns the zh: hash of an archive with this SHA-256.
func ZipHash(sum [32]byte) Hash { return Hash(ZH + ":" + hex.EncodeToString(sum[:])) }

// ContentsHash returns the h1: hash of a package whose list of files has this
// SHA-256.
func ContentsHash(sum [32]byte) Hash {
	return Hash(H1 + ":" + base64.StdEncoding.EncodeToString(sum[:]))
}

// Sum returns the SHA-256 in a hash of the scheme [H1] or [ZH]. It returns an
// error if h has another scheme, or is not written exactly as engines write it.
func (h Hash) Sum(scheme string) ([32]byte, error) {
	var sum []byte
	_, value, _ := strings.Cut(string(h), ":")
	write := ZipHash
	if scheme == H1 {
		sum, _ = base64.StdEncoding.DecodeString(value)
		write = ContentsHash
	} else {
		sum, _ = hex.DecodeString(value)
	}
	if len(sum) != 32 || write([32]byte(sum)) != h {
		return [32]byte{}, fmt.Errorf("%.99q is not a valid %s: hash", h, scheme)
	}
	return [32]byte(sum), nil
}

// Scheme returns the part before the colon, or "" if there is no colon.
func (h Hash) Scheme() string {
	scheme, _, ok := strings.Cut(string(h), ":")
	if !ok {
		return ""
	}
	return scheme
}

// Usable reports whether Larder can compute hashes of the scheme of h.
func (h Hash) Usable() bool { return h.Scheme() == H1 || h.Scheme() == ZH }

// AnyUsable reports whether any of the hashes is [Hash.Usable].
func AnyUsable(hashes []Hash) bool { return slices.ContainsFunc(hashes, Hash.Usable) }

// AnyOf reports whether any of the hashes has the scheme.
func AnyOf(scheme string, hashes []Hash) bool { return len(HashesOf(scheme, hashes)) > 0 }

// HashesOf returns the hashes of a scheme, as Larder writes them.
func HashesOf(scheme string, hashes []Hash) (all []Hash) {
	for _, h := range hashes {
		if h.Scheme() == scheme {
			all = append(all, h.Canonical())
		}
	}
	return all
}

// MatchesAny reports whether any usable hash of got is in want.
func MatchesAny(want []Hash, got ...Hash) bool {
	in := setOf(got)
	return slices.ContainsFunc(want, func(h Hash) bool { return in[h] && h.Usable() })
}

// Without returns the hashes that aren't among others. It reuses the memory of hashes.
func Without(hashes []Hash, others ...Hash) []Hash {
	in := setOf(others)
	return slices.DeleteFunc(hashes, func(h Hash) bool { return in[h] })
}

// setOf returns hashes as a set, because lock files, checksums and mirrors of others may
// have so many that comparing each with each takes minutes.
func setOf(hashes []Hash) map[Hash]bool {
	in := make(map[Hash]bool, len(hashes))
	for _, h := range hashes {
		in[h] = true
	}
	return in
}

// SortHashes returns the hashes sorted as in a lock file, by bytes, without
// duplicates.
func SortHashes(hashes []Hash) []Hash {
	return slices.Compact(slices.Sorted(slices.Values(hashes)))
}
