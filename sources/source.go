package sources

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Source lists versions and packages of providers. It downloads no packages
// and writes nothing. Its methods are safe for concurrent use.
//
// An error that matches [ErrNotFound] is an answer: the source does not have
// the provider, version or package, and the caller may query the next source.
// Any other error means that there was no answer, and ends the search:
// otherwise, while a mirror is unreachable, a package of the same name could be
// installed from elsewhere. The exception is an error that matches [ErrOffline]: the
// user has decided that only the sources on this machine are queried.
type Source interface {
	// Versions lists the versions of p, in any order.
	Versions(ctx context.Context, p Provider) (Listing, error)

	// Package returns a package's location and hashes. The error matches
	// [ErrNoPlatform] if the version has no package for the platform.
	Package(ctx context.Context, id PackageID) (Package, error)

	// String returns the source's name for messages: "mirror
	// https://m.example.org/".
	String() string
}

type located struct{}

// WhenLocated returns a context in which [Source.Package] calls do with the package as soon as only its signed
// checksums are missing, and fetches these after that. Not every source does, and none for a recorded answer.
func WhenLocated(ctx context.Context, do func(Package)) context.Context {
	return context.WithValue(ctx, located{}, do)
}

// Located calls the function of [WhenLocated], if there is one. Sources call it.
func Located(ctx context.Context, p Package) {
	if do, ok := ctx.Value(located{}).(func(Package)); ok {
		do(p)
	}
}

// A Holding is what a mirror has of a release.
type Holding struct {
	Provider Provider // as the mirror states it, or else as it was asked about
	Archives map[Platform]HeldArchive
	Signed   *Signed // nil if there is none
	Warnings []string
}

// A HeldArchive is an archive that a mirror has.
type HeldArchive struct {
	URL    string
	Hashes []Hash // that the mirror states
	Size   int64  // in bytes; 0 if unknown
}

// A Listing is the list of a provider's versions.
type Listing struct {
	Versions []Version
	Warnings []string // messages of the source for the user
	From     []string // the sources that have the provider, as messages name them; empty means the source that was queried
	Unasked  []string // the sources that were not queried, if the error matches [ErrOffline]

	// Vouched are the versions that exist: those of installation methods that the user trusts, see [Method]. A source
	// leaves it empty.
	Vouched []Version

	// Details describe versions, as far as the source knows without another request. Sources may need an option
	// for them.
	Details map[Version]Detail
}

// maxIgnored is the number of invalid versions that a warning quotes.
const maxIgnored = 5

// ListVersions returns the versions among the texts that a source lists, sorted and without duplicates. It warns about
// other texts, and about what the source said if it lists none. The messages name the kind of the source, for example
// "registry".
func ListVersions(kind string, texts []string, said func() string) (l Listing) {
	var ignored []string
	for _, text := range texts {
		if v, err := ParseVersion(text); err == nil {
			l.Versions = append(l.Versions, v)
		} else {
			ignored = append(ignored, text)
		}
	}
	slices.SortFunc(l.Versions, Version.Compare)
	l.Versions = slices.Compact(l.Versions)
	if len(texts) == 0 {
		if text := said(); text != "" {
			l.Warnings = append(l.Warnings, fmt.Sprintf("the %s lists no versions, but returned the message %q", kind, text))
		}
	}
	if len(ignored) == 0 {
		return l
	}
	var quoted []string
	for _, text := range ignored[:min(len(ignored), maxIgnored)] {
		quoted = append(quoted, fmt.Sprintf("%.40q", text))
	}
	if more := len(ignored) - maxIgnored; more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	warning := "ignored invalid versions: " + strings.Join(quoted, ", ")
	if _, err := ParseVersion(strings.TrimPrefix(ignored[0], "v")); err == nil {
		warning += ` (versions are listed without "v")`
	}
	l.Warnings = append(l.Warnings, warning)
	return l
}

// size returns about how many bytes of memory the listing takes.
func (l Listing) size() int {
	n := 1 << 10 // of a failure, too
	for _, v := range l.Versions {
		n += 2 * v.Size() // also in Vouched
	}
	for _, d := range l.Details {
		n += 200 + 50*len(d.Platforms) + 30*len(d.Protocols)
	}
	return n
}

// A Detail describes a version of a provider.
type Detail struct {
	Platforms []Platform // those with a package, sorted; nil if unknown
	Protocols []string   // versions of the plugin protocol, as the source states them; nil if unknown
}

// For reports whether there may be a package for the platform.
func (d Detail) For(p Platform) bool { return d.Platforms == nil || slices.Contains(d.Platforms, p) }

// Usable reports whether engines may support one of the protocols.
func (d Detail) Usable() bool {
	return d.Protocols == nil || slices.ContainsFunc(d.Protocols, SupportedProtocol)
}

// An Approver is a source that may have a signed set of packages.
type Approver interface {
	// Approvals returns the keys that signed the set, if it lists a package with the checksum of its archive; with any
	// checksum if zh is empty.
	Approvals(ctx context.Context, id PackageID, zh Hash) ([]Signer, error)
}

// A Detailer is a source that knows more about a version after another request.
type Detailer interface {
	Detail(ctx context.Context, r Release) (Detail, error)
}
