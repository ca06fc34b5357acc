// Package trust reads signed checksums and says how well they vouch for a
// package: whose key signed them, and what that is worth.
//
// It fetches nothing, and it holds no keys: the keys are those that a registry
// lists, and of HashiCorp's it knows the fingerprints alone. It leaves nothing
// on disk.
//
// # Rules
//
// Checksums are signed by a detached, binary OpenPGP signature. The listed keys
// are tried in order until one of them is the signature's issuer; a listed key
// that cannot be read is an error. A key that has expired is good for what it
// signed before, and only if no key that is still valid verifies the same. A
// key that was ever revoked, for whatever reason, is good for nothing. Neither
// is a signature that has expired, or whose digest is weak.
//
// A registry may add to a publisher's key a trust signature: that of HashiCorp's
// partner key over the key itself. A trust signature that is there must hold.
package trust
