package sources

// A Pattern matches provider addresses: [HOST/]NAMESPACE/TYPE with "*" for
// whole segments.
type Pattern struct{ Host, Namespace, Type string }

// ParsePattern parses an item of include or exclude. A missing host means e's
// default host.
func ParsePattern(s string, e Engine) (Pattern, error) { panic("unwritten") }

// Match reports whether p matches the pattern.
func (pt Pattern) Match(p Provider) bool { panic("unwritten") }
