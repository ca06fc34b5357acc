package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Digest returns the SHA-256, in hexadecimal, of everything in s that the
// verdict depends on: the checksums, the signature and the keys, each with its
// length. It is empty for nil.
func Digest(s *sources.Signed) string {
	if s == nil {
		return ""
	}
	sum := sha256.New()
	write(sum, s.Sums)
	write(sum, s.Signature)
	for _, k := range s.Keys {
		writeKey(sum, k)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// write hashes data with its length, so that the boundaries between values are
// unambiguous.
func write(sum hash.Hash, data []byte) {
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
	sum.Write(data)
}

func writeKey(sum hash.Hash, k sources.Key) {
	write(sum, []byte(k.Armor))
	write(sum, []byte(k.TrustSignature))
}

func keyDigest(k sources.Key) string {
	sum := sha256.New()
	writeKey(sum, k)
	return hex.EncodeToString(sum.Sum(nil))
}

// Reference returns the reference to evidence in a package's record: the digest
// of s, and the digest of each key that a registry listed. The files do not
// contain which keys a registry listed, so the record must. It is empty for
// nil.
func Reference(s *sources.Signed) string {
	if s == nil {
		return ""
	}
	parts := []string{Digest(s)}
	for _, k := range s.Keys {
		if k.Listed() {
			parts = append(parts, keyDigest(k))
		}
	}
	return strings.Join(parts, " ")
}

// Resolve returns s with the keys marked as listed that the references list. It
// also reports whether s is the evidence of the first reference. The references
// must come from authenticated records. The evidence may have changed since
// then: better evidence replaces it, and keys are added.
func Resolve(s *sources.Signed, references ...string) (marked *sources.Signed, same bool) {
	listed := map[string]bool{}
	for i, reference := range references {
		parts := strings.Fields(reference)
		if len(parts) == 0 {
			continue
		}
		same = same || i == 0 && parts[0] == Digest(s)
		for _, key := range parts[1:] {
			listed[key] = true
		}
	}
	if len(listed) == 0 {
		return s, same
	}
	with := *s
	with.Keys = slices.Clone(s.Keys)
	for i, k := range with.Keys {
		with.Keys[i] = k.AsListed(k.Listed() || listed[keyDigest(k)])
	}
	return &with, same
}
