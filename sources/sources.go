// Package sources is Larder's vocabulary: the values that name providers,
// versions, platforms, packages and hashes, the interface of whatever can be
// asked for them, and the few rules that hold wherever they meet.
//
// It is not a client of anything: registries, mirrors and caches have packages of
// their own, which import this one. It reads and writes no files.
package sources
