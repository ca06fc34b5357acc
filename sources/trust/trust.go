// Package trust verifies signed checksums, and computes the verdict on a package:
// which key signed its checksum, and the origin of that key.
//
// It works in two steps. [Judge.Prove] verifies signatures, and returns facts that
// don't depend on settings, so stores record them. [Judge.Report] computes the
// verdict from the facts and the trust settings of one run.
//
// The caller passes the keys. The package contains only the fingerprints of
// HashiCorp's keys. It writes no files.
//
// # Rules
//
// Checksums are signed by detached, binary OpenPGP signatures. A file contains
// one or more signatures. Each is checked with each key, and the best valid one
// counts. Verification fails if a key cannot be read, unless an earlier key has a
// valid signature. The signatures that an expired key made before it expired
// are valid, but one by a key that has not expired is preferred. A key that was
// ever revoked, for any reason, is invalid, even if it is also listed in its
// earlier state. A signature that has expired, or that uses a weak digest, is
// invalid.
//
// Keys are identified by the fingerprints of their primary keys, never by key
// ids or subkeys. The verdict depends on the origin of the key, from best to
// worst: HashiCorp's key, which has a known fingerprint; a key that the user's
// configuration trusts; a key that a registry listed; a key that came with the
// package. If a provider has trusted keys, all other keys count as if they came
// with the package.
//
// A registry may list a publisher's key with a trust signature by HashiCorp's
// partner key. Larder does not have that key, so it ignores trust signatures.
package trust
