// Package sources is Larder's vocabulary: the values that name providers,
// versions, platforms, packages and hashes, the interface of whatever can be
// asked for them, and the few rules that hold wherever they meet.
//
// It is not a client of anything: registries, mirrors and caches live in
// packages of their own, which know this one, while it knows none of them. It
// leaves nothing on disk but the evidence that it is told to write:
//
//	SHA256SUMS      the publisher's checksums, as they came
//	SHA256SUMS.sig  the detached signature over them, binary
//	keys.json       the keys the registry listed: [{"ascii_armor", "trust_signature"}]
//	origin          the URL of the checksums
package sources
