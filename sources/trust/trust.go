// Package trust verifies signed checksums, and returns the verdict on a package:
// which key signed its checksum, and where that key came from.
//
// It fetches nothing and contains no keys: the caller passes the keys, and of
// HashiCorp's keys it knows the fingerprints only. It leaves nothing on disk.
//
// # Rules
//
// Checksums are signed by detached, binary OpenPGP signatures, one or several in a
// file. Each is tried with each key, and the best valid one counts. A key that cannot
// be read is an error, unless one before it signed. A key that has expired is good for
// what it signed before, and only if no key that is still valid verifies the same. A
// key that was ever revoked, for whatever reason, is good for nothing, even if it is
// also listed as it was before. Neither is a signature that has expired, or whose
// digest is weak.
//
// Keys are told apart by the fingerprints of primary keys, never by their ids or by
// subkeys. What a key is worth depends on where it came from, from the best: HashiCorp's
// is known by its fingerprint, a trusted one is in the user's configuration, a registry listed it, or it came along with the package.
// Where a provider has trusted keys, others are worth no more than one that came along.
//
// A registry may add to a publisher's key a trust signature: that of HashiCorp's
// partner key over the key itself. Larder doesn't have the partner key. It checks that a
// trust signature names the partner key as its issuer, and counts it for nothing else.
package trust
