package sources

import "context"

// A Source answers questions about providers. It downloads no packages and
// writes nothing. Its methods are safe for concurrent use.
//
// An error matching [ErrNotFound] is an answer: what was asked for does not
// exist here, and the caller may ask the next source. Any other error means
// there was no answer, and ends the search: an unreachable mirror must never
// let a package of the same name be taken from somewhere else.
type Source interface {
	// Versions lists what there is of p, in any order.
	Versions(ctx context.Context, p Provider) (Listing, error)

	// Package says where a package is and what it must hash to. The error
	// matches [ErrNoPlatform] if the version has no package for the platform.
	Package(ctx context.Context, id PackageID) (Package, error)

	// String names the source in messages: "mirror https://m.example.org/".
	String() string
}

// A Listing is the answer to which versions of a provider there are.
type Listing struct {
	Versions []Version
	Warnings []string // the source's own words to the user
	From     []string // the sources that have the provider, as messages name them; empty means this one
}
