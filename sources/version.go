package sources

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Version is a provider's version. Versions are comparable with ==: two are
// equal if and only if their texts are, build metadata included. The zero
// Version is not a version.
type Version struct {
	text       string
	core       [3]uint64
	prerelease string // without its dash
	build      string // without its plus
}

// maxVersion is the maximum length of a version, in bytes. Versions are used as
// names of directories.
const maxVersion = 255

// ParseVersion parses a version as written by registries, mirrors, directories
// and lock files: one to three numbers (missing ones are zero), and optionally
// a pre-release and build metadata.
func ParseVersion(s string) (Version, error) {
	v, _, err := parseVersion(s)
	if err != nil {
		return Version{}, fmt.Errorf("version %.80q %w", s, err)
	}
	return v, nil
}

// parseVersion also returns how many numbers s has.
func parseVersion(s string) (v Version, numbers int, err error) {
	if len(s) > maxVersion {
		return v, 0, fmt.Errorf("is too long (%d bytes)", len(s))
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
	// Like the engines, accept a dash with nothing after it.
	if dash && s != core+"-" && !isDotted(prerelease) || hasBuild && !isDotted(build) {
		err := errors.New("has a pre-release or build that is not letters, digits and dashes with single dots between them")
		return v, 0, err
	}
	v.prerelease, v.build = prerelease, build
	if v.text = v.format(3); v.text == s {
		v.text = s // which the other members refer to
	}
	return v, len(parts), nil
}

// checkCore returns an error for numbers that are not valid.
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
		return WithHint(fmt.Errorf("has %.40q where a number belongs", s),
			"a pre-release needs a dash before it, as in 1.0.0-beta1")
	default:
		return errors.New("is not a version such as 1.2.3")
	}
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

const digits = "0123456789"

// isDotted reports whether s consists of identifiers separated by single dots.
func isDotted(s string) bool {
	return !strings.Contains("."+s+".", "..") && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '.'
	})
}

// format returns the text of v with only its first n numbers.
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

// String returns the canonical form: three numbers without leading zeros.
func (v Version) String() string { return v.text }

// Size returns about how many bytes of memory the version takes.
func (v Version) Size() int { return 100 + len(v.text) }

// Compare orders versions by precedence. Versions that differ only in build
// metadata are ordered by its text, so that the order is total. Precedence
// follows Semantic Versioning; the engines order pre-releases differently.
func (v Version) Compare(w Version) int {
	return cmp.Or(
		slices.Compare(v.core[:], w.core[:]),
		comparePrereleases(v.prerelease, w.prerelease, compareIdentifiers),
		cmp.Compare(v.text, w.text),
	)
}

// Prerelease reports whether v is a pre-release.
func (v Version) Prerelease() bool { return v.prerelease != "" }

// Release returns the release that follows a pre-release, or a release itself.
func (v Version) Release() Version {
	if v.Prerelease() {
		v.prerelease, v.build = "", ""
		v.text = v.format(3)
	}
	return v
}

// comparePrereleases places releases, which have an empty pre-release, above
// all pre-releases, and orders pre-releases by compare.
func comparePrereleases(a, b string, compare func(a, b string) int) int {
	if a == "" || b == "" {
		return -cmp.Compare(len(a), len(b))
	}
	return compare(a, b)
}

// compareIdentifiers orders pre-releases by Semantic Versioning.
func compareIdentifiers(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), compareIdentifier)
}

// compareExtras orders pre-releases and build metadata as the engines do: text
// with more identifiers is greater.
func compareExtras(a, b string) int {
	return cmp.Or(
		cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")),
		compareIdentifiers(a, b),
	)
}

// compareIdentifier orders numbers before words.
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
