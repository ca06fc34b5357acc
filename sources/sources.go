// Package sources is Larder's vocabulary: the values for providers, versions, platforms,
// packages and hashes, the interface of a source of packages, and the rules that apply to
// all of them.
//
// It contains no client: registries, mirrors and caches have packages of their own, which
// import this one. It reads and writes no files.
package sources
