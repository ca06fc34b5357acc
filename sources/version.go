package sources

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Version is a provider's version. It is comparable: two Versions are equal
// if and only if their texts are, build metadata included. The zero Version is
// no version.
type Version struct {
	text       string
	core       [3]uint64
	prerelease string // without its dash
	build      string // without its plus
}

// ParseVersion parses a version as registries, mirrors, directories and lock
// files state it: one to three numbers, the missing ones zero, and optionally a
// pre-release and build metadata.
func ParseVersion(s string) (Version, error) {
	v, _, err := parseVersion(s)
	if err != nil {
		return Version{}, fmt.Errorf("version %q: %w", s, err)
	}
	return v, nil
}

// parseVersion also says how many numbers s states.
func parseVersion(s string) (v Version, numbers int, err error) {
	rest, build, hasBuild := strings.Cut(s, "+")
	core, prerelease, _ := strings.Cut(rest, "-")
	parts := strings.Split(core, ".")
	if err := checkCore(s, parts); err != nil {
		return v, 0, err
	}
	for i, part := range parts {
		if v.core[i], err = strconv.ParseUint(part, 10, 64); err != nil {
			return v, 0, fmt.Errorf("%s is too large", part)
		}
	}
	// A dash with nothing behind it is tolerated, as the engines do.
	if prerelease != "" && !isDotted(prerelease) || hasBuild && !isDotted(build) {
		return v, 0, errors.New("pre-release and build may have only letters, digits, dashes, and single dots between")
	}
	v.prerelease, v.build = prerelease, build
	v.text = v.format(3)
	return v, len(parts), nil
}

// checkCore says what is wrong with the numbers of s.
func checkCore(s string, parts []string) error {
	if s == "" {
		return errors.New("empty")
	}
	for _, part := range parts {
		switch {
		case part != "" && strings.Trim(part, digits) == "":
		case strings.Trim(part, "xX*") == "" && part != "":
			return WithHint(errors.New("wildcards cannot be used"), `leave out the wildcard and use an operator, as in "~> 1.0"`)
		case part == parts[0] && strings.HasPrefix(part, "v"):
			return WithHint(errors.New(`has a "v" before the number`), "write it as %q", s[1:])
		case part != "" && strings.Trim(part[:1], digits) == "":
			return WithHint(fmt.Errorf("%q is not a number", part), "a pre-release needs a dash before it, as in 1.0.0-beta1")
		default:
			return errors.New("is not one to three numbers with dots between them")
		}
	}
	if len(parts) > 3 {
		return errors.New("has more than three numbers")
	}
	return nil
}

const digits = "0123456789"

// isDotted reports whether s is identifiers with dots between them.
func isDotted(s string) bool {
	return !strings.Contains("."+s+".", "..") && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '.'
	})
}

// format is the text of v with only the first n of its numbers.
func (v Version) format(n int) string {
	var b strings.Builder
	for i, number := range v.core[:n] {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(strconv.FormatUint(number, 10))
	}
	if v.prerelease != "" {
		b.WriteString("-" + v.prerelease)
	}
	if v.build != "" {
		b.WriteString("+" + v.build)
	}
	return b.String()
}

// String is the canonical form: three numbers without leading zeros.
func (v Version) String() string { return v.text }

// Compare orders versions by precedence, and those that differ in build
// metadata alone by its text, so that the order is total. Precedence is that of
// Semantic Versioning; the engines differ in how they order pre-releases.
func (v Version) Compare(w Version) int {
	return cmp.Or(
		slices.Compare(v.core[:], w.core[:]),
		comparePrereleases(v.prerelease, w.prerelease, compareIdentifiers),
		cmp.Compare(v.text, w.text),
	)
}

// Prerelease reports whether v is a pre-release.
func (v Version) Prerelease() bool { return v.prerelease != "" }

// comparePrereleases places releases, whose pre-release is empty, above all
// pre-releases, which it orders by compare.
func comparePrereleases(a, b string, compare func(a, b string) int) int {
	if a == "" || b == "" {
		return -cmp.Compare(len(a), len(b))
	}
	return compare(a, b)
}

// compareIdentifiers is the order of Semantic Versioning.
func compareIdentifiers(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), compareIdentifier)
}

// compareExtras is the order of the engines: more identifiers make a greater
// text whatever they are.
func compareExtras(a, b string) int {
	return cmp.Or(
		cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")),
		compareIdentifiers(a, b),
	)
}

// compareIdentifier places numbers below words.
func compareIdentifier(a, b string) int {
	aWord, bWord := strings.Trim(a, digits) != "", strings.Trim(b, digits) != ""
	switch {
	case aWord && !bWord:
		return 1
	case bWord && !aWord:
		return -1
	case !aWord && len(a) != len(b):
		return cmp.Compare(len(a), len(b))
	default:
		return cmp.Compare(a, b)
	}
}
