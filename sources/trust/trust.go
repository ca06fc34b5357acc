// Package trust verifies signed checksums, and returns the verdict on a package:
// which key signed its checksum, and where that key came from.
//
// It fetches nothing and contains no keys: the caller passes the keys. It contains only the
// fingerprints of HashiCorp's keys. It leaves nothing on disk.
//
// # Rules
//
// Checksums are signed by detached, binary OpenPGP signatures, one or several in a
// file. Each is tried with each key, and the best valid one counts. A key that cannot be
// read is an error, unless an earlier key signed. An expired key verifies only what it
// signed before it expired, and only if no key that is still valid verifies the same. A
// key that was ever revoked, for whatever reason, verifies nothing, even if it is also
// listed without the revocation. An expired signature, or one with a weak digest, is not
// valid.
//
// Keys are identified by the fingerprints of primary keys, never by key ids or subkeys.
// The verdict depends on where the key came from. From the best to the worst: HashiCorp's
// key, known by its fingerprint; a trusted key in the user's configuration; a key that a
// registry listed; a key that came with the package. If a provider has trusted keys, all
// other keys count as keys that came with the package.
//
// A registry may add a trust signature to a publisher's key: HashiCorp's partner key
// signed the publisher's key. Larder doesn't have the partner key. It only checks that a
// trust signature names the partner key as its issuer.
package trust
