package sources

// Constraints say which versions are acceptable. The zero Constraints accept
// every release, as no constraint at all does.
type Constraints struct { /* unwritten */
}

// ParseConstraints parses the text of a version argument.
func ParseConstraints(s string) (Constraints, error) { panic("unwritten") }

// And is the intersection of c and d.
func (c Constraints) And(d Constraints) Constraints { panic("unwritten") }

// Empty reports whether c has no items.
func (c Constraints) Empty() bool { panic("unwritten") }

// Allow reports whether v is acceptable.
func (c Constraints) Allow(v Version) bool { panic("unwritten") }

// Newest is the newest of vs that c allows, and false if it allows none.
func (c Constraints) Newest(vs []Version) (Version, bool) { panic("unwritten") }

// String is the canonical form that lock files hold.
func (c Constraints) String() string { panic("unwritten") }
