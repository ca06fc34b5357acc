// Package sources defines Larder's vocabulary: types for providers, versions,
// platforms, packages and hashes, the interfaces of sources and stores, and the
// few rules that all packages share.
//
// Clients of registries, mirrors and caches have their own packages, which
// import this one. Package sources reads and writes no files.
package sources
