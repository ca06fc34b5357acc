package cachedir

import "github.com/larder-cli/larder/sources"

// A FindingKind is what sort of thing is wrong in a cache.
type FindingKind string

// The kinds of findings.
const (
	Dangling    FindingKind = "dangling link"      // leads nowhere
	Elsewhere   FindingKind = "link"               // leads elsewhere, and is not followed
	NoDirectory FindingKind = "not a directory"    // a file where a directory should be
	Collision   FindingKind = "case collision"     // a name that differs from another only in case
	Stranger    FindingKind = "foreign file"       // nothing that a cache has
	Unreadable  FindingKind = "unreadable"         // may not be read
	Incomplete  FindingKind = "incomplete package" // no package that an engine could use
	Changed     FindingKind = "changed package"    // holds other bytes than when it was stored
	BadRecord   FindingKind = "broken record"      // a memo that makes no sense; nothing is lost with it
	BadEvidence FindingKind = "broken evidence"    // does not vouch for the package as it did
	Leftover    FindingKind = "leftover"           // of a process that was killed
)

// A Finding is one thing that is wrong in a cache.
type Finding struct {
	Kind    FindingKind
	Path    string             // below the cache, with forward slashes
	Package *sources.PackageID // nil if it is not about one
	Text    string             // what is wrong with it
}

func (f Finding) String() string { return f.Path + ": " + string(f.Kind) + ": " + f.Text }
