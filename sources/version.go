package sources

// A Version is a provider's version. It is comparable: two Versions are equal
// if and only if their texts are, build metadata included. The zero Version is
// no version.
type Version struct{ text string }

// ParseVersion parses a version as registries, mirrors, directories and lock
// files state it: one to three numbers, the missing ones zero, and optionally a
// pre-release and build metadata.
func ParseVersion(s string) (Version, error) { panic("unwritten") }

// String is the canonical form: three numbers without leading zeros.
func (v Version) String() string { return v.text }

// Compare orders versions by precedence, and those that differ in build
// metadata alone by its text, so that the order is total.
func (v Version) Compare(w Version) int { panic("unwritten") }

// Prerelease reports whether v is a pre-release.
func (v Version) Prerelease() bool { panic("unwritten") }
