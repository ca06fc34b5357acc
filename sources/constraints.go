package sources

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	goversion "github.com/hashicorp/go-version"
)

// Constraints are the versions that a configuration allows. The zero
// Constraints allow every release.
type Constraints struct{ items []constraint }

// A constraint is an operator and the version on its right.
type constraint struct {
	op       int // index of the operator
	boundary Version
}

// An operator compares a version with a boundary, with no special rule for pre-releases.
// Build metadata counts only for = and !=.
type operator struct {
	text   string
	admits func(v, boundary Version) bool
}

// operators lists the operators in the order of canonical text, for constraints
// with the same boundary.
var operators = []operator{
	{">", func(v, boundary Version) bool { return comparePrecedence(v, boundary) > 0 }},
	{">=", func(v, boundary Version) bool { return comparePrecedence(v, boundary) >= 0 }},
	{"=", func(v, boundary Version) bool { return v == boundary }},
	{"~>", func(v, boundary Version) bool { return within(v, boundary, 1) }},
	{"~>", func(v, boundary Version) bool { return within(v, boundary, 0) }},
	{"<=", func(v, boundary Version) bool { return comparePrecedence(v, boundary) <= 0 }},
	{"<", func(v, boundary Version) bool { return comparePrecedence(v, boundary) < 0 }},
	{"!=", func(v, boundary Version) bool { return v != boundary }},
}

// Indexes of operators that more is known about. The boundary of sameMinor has three
// numbers, that of sameMajor one or two.
const equal, sameMinor, sameMajor, unequal = 2, 3, 4, 7

// ParseConstraints parses the text of a version argument. The engines parse it
// twice: first with go-version, then with a stricter grammar that alone decides
// its meaning. ParseConstraints returns an error for text that either parser
// rejects.
func ParseConstraints(s string) (Constraints, error) {
	var c Constraints
	for text := range strings.SplitSeq(s, ",") {
		text = strings.TrimSpace(text)
		item, err := parseConstraint(text)
		if text == "" {
			text = s // show an empty item together with its neighbors
		}
		if err != nil {
			return Constraints{}, fmt.Errorf("version constraint %.200q %w", text, err)
		}
		c.items = append(c.items, item)
	}
	if _, err := goversion.NewConstraint(s); err != nil {
		err := fmt.Errorf("version constraint %.200q has a number that is too large, or unusual white space", s)
		return Constraints{}, err
	}
	return c, nil
}

func parseConstraint(s string) (constraint, error) {
	end := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("=!<>~^|", r) })
	if end < 0 {
		end = len(s)
	}
	op, text := equal, s[end:]
	if end > 0 {
		text = strings.TrimPrefix(text, " ")
		op = slices.IndexFunc(operators, func(o operator) bool { return o.text == s[:end] })
	}
	if op < 0 {
		return constraint{}, unknownOperator(s[:end])
	}
	if err := checkBoundary(text); err != nil {
		return constraint{}, err
	}
	boundary, numbers, err := parseVersion(text)
	if err != nil {
		return constraint{}, err
	}
	if op == sameMinor && numbers < 3 {
		op = sameMajor
	}
	return constraint{op, boundary}, nil
}

// unknownOperator returns the error for an unknown operator, with a hint for
// operators of other tools.
func unknownOperator(op string) error {
	err := fmt.Errorf("has the unknown operator %.40q", op)
	switch op {
	case "==", "===":
		return WithHint(err, `write "=", or the version alone`)
	case "=>":
		return WithHint(err, `write ">="`)
	case "=<":
		return WithHint(err, `write "<="`)
	case "<>", "!":
		return WithHint(err, `write "!="`)
	case "~", "^":
		return WithHint(err, `write "~>": "~> 1.2" allows 1.3, "~> 1.2.0" does not`)
	default:
		return err
	}
}

// checkBoundary returns an error for common mistakes in the version after an
// operator.
func checkBoundary(s string) error {
	switch {
	case s == "":
		return WithHint(errors.New("lacks a version"),
			"leave out the whole constraint to allow every release, and write no comma after the last part")
	case strings.TrimSpace(s[:1]) == "":
		return WithHint(errors.New("has more than one space after its operator"),
			"write one space there or none")
	case strings.Contains(s, "|"):
		return WithHint(errors.New("has alternatives, which constraints do not support"),
			"all parts of a constraint must hold; exclude single versions with !=")
	case strings.ContainsAny(s, " \t\r\n<>=!^"):
		return WithHint(errors.New("has more than one version"),
			`put a comma between the parts, as in ">= 1.0, < 2.0"`)
	default:
		return nil
	}
}

// And returns the intersection of c and d.
func (c Constraints) And(d Constraints) Constraints {
	return Constraints{slices.Concat(c.items, d.items)}
}

// Empty reports whether c has no items.
func (c Constraints) Empty() bool { return len(c.items) == 0 }

// Allow reports whether c allows v. A pre-release is allowed only by a
// constraint with exactly that version. 0.0.0 is never allowed, because engines
// use it for "no version".
func (c Constraints) Allow(v Version) bool {
	if v.text == "" || v.text == "0.0.0" {
		return false
	}
	named := false
	for _, item := range c.items {
		if !operators[item.op].admits(v, item.boundary) {
			return false
		}
		named = named || item.op == equal
	}
	return named || !v.Prerelease()
}

// Contain reports whether v satisfies every item of c, as a rule and not as a choice: a pre-release needs no
// constraint with exactly that version, and "!=" excludes a version with any build metadata.
func (c Constraints) Contain(v Version) bool {
	return v.text != "" && !slices.ContainsFunc(c.items, func(item constraint) bool {
		return !operators[item.op].admits(v, item.boundary) || item.op == unequal && comparePrecedence(v, item.boundary) == 0
	})
}

// within reports whether v is at least the boundary, and below the first release with
// another number at the index.
func within(v, boundary Version, index int) bool {
	var end Version
	copy(end.core[:], boundary.core[:index+1])
	end.core[index]++
	return comparePrecedence(v, boundary) >= 0 && comparePrecedence(v, end) < 0
}

// Newest returns the newest of vs that c allows, and false if c allows none.
func (c Constraints) Newest(vs []Version) (Version, bool) {
	var newest Version
	for _, v := range vs {
		if c.Allow(v) && (newest == Version{} || v.Compare(newest) > 0) {
			newest = v
		}
	}
	return newest, newest != Version{}
}

// String returns the canonical form, as written in lock files.
func (c Constraints) String() string {
	items := slices.Clone(c.items)
	slices.SortFunc(items, constraint.compare)
	var texts []string
	for _, item := range slices.Compact(items) {
		texts = append(texts, item.String())
	}
	return strings.Join(texts, ", ")
}

func (c constraint) compare(d constraint) int {
	return cmp.Or(
		comparePrecedence(c.boundary, d.boundary),
		compareExtras(c.boundary.build, d.boundary.build),
		cmp.Compare(c.op, d.op),
	)
}

func (c constraint) String() string {
	switch c.op {
	case equal:
		return c.boundary.text
	case sameMajor:
		return "~> " + c.boundary.format(2)
	default:
		return operators[c.op].text + " " + c.boundary.text
	}
}

// comparePrecedence orders versions for constraints. It differs from
// [Version.Compare] because canonical text must be identical to that of the
// engines.
func comparePrecedence(v, w Version) int {
	return cmp.Or(
		slices.Compare(v.core[:], w.core[:]),
		comparePrereleases(v.prerelease, w.prerelease, compareExtras),
	)
}
