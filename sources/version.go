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

// maxVersion is as long as the name of a directory, which every version is one
// day, in bytes.
const maxVersion = 255

// ParseVersion parses a version as registries, mirrors, directories and lock
// files state it: one to three numbers, the missing ones zero, and optionally a
// pre-release and build metadata.
func ParseVersion(s string) (Version, error) {
	v, _, err := parseVersion(s)
	if err != nil {
		return Version{}, fmt.Errorf("version %.80q: %w", s, err)
	}
	return v, nil
}

// parseVersion also says how many numbers s states.
func parseVersion(s string) (v Version, numbers int, err error) {
	if len(s) > maxVersion {
		return v, 0, fmt.Errorf("is %d bytes long", len(s))
	}
	rest, build, hasBuild := strings.Cut(s, "+")
	core, prerelease, dash := strings.Cut(rest, "-")
	parts := strings.Split(core, ".")
	if err := checkCore(s, parts); err != nil {
		return v, 0, err
	}
	for i, part := range parts {
		if v.core[i], err = strconv.ParseUint(part, 10, 64); err != nil {
			return v, 0, fmt.Errorf("has the number %.40s, which is too large", part)
		}
	}
	// A dash with nothing at all behind it is tolerated, as the engines do.
	if dash && s != core+"-" && !isDotted(prerelease) || hasBuild && !isDotted(build) {
		return v, 0, errors.New("has a pre-release or build that is not letters, digits and dashes with single dots between them")
	}
	v.prerelease, v.build = prerelease, build
	v.text = v.format(3)
	return v, len(parts), nil
}

// checkCore says what is wrong with the numbers of s.
func checkCore(s string, parts []string) error {
	for _, part := range parts {
		if err := checkNumber(part); err != nil {
			if rest, ok := strings.CutPrefix(s, "v"); ok && startsWithDigit(rest) {
				return WithHint(errors.New(`has a "v" before its number`), "write it as %s", rest)
			}
			return err
		}
	}
	if len(parts) > 3 {
		return errors.New("has more than three numbers")
	}
	return nil
}

func checkNumber(s string) error {
	switch {
	case s != "" && strings.Trim(s, digits) == "":
		return nil
	case s == "*" || s == "x" || s == "X":
		return WithHint(errors.New("has a wildcard"), `a constraint such as "~> 1.0" allows all of 1.x`)
	case startsWithDigit(s):
		return WithHint(fmt.Errorf("has %.40q where a number belongs", s), "a pre-release needs a dash before it, as in 1.0.0-beta1")
	default:
		return errors.New("is not one to three numbers with dots between them")
	}
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

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
