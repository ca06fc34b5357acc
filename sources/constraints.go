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
	op       operator
	boundary Version
}

// An operator compares a version with a boundary.
type operator string

const (
	equal          operator = "="
	notEqual       operator = "!="
	greater        operator = ">"
	greaterOrEqual operator = ">="
	less           operator = "<"
	lessOrEqual    operator = "<="
	sameMinor      operator = "~>"        // the boundary has three numbers
	sameMajor      operator = "~> MAJOR." // the boundary has one or two numbers
)

// operators lists the operators in the order of canonical text, for constraints
// with the same boundary.
var operators = []operator{greater, greaterOrEqual, equal, sameMinor, sameMajor, lessOrEqual, less, notEqual}

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
			text = s // show an empty item together with its neighbours
		}
		if err != nil {
			return Constraints{}, fmt.Errorf("version constraint %.200q: %w", text, err)
		}
		c.items = append(c.items, item)
	}
	if _, err := goversion.NewConstraint(s); err != nil {
		return Constraints{}, fmt.Errorf("version constraint %.200q: has a number that is too large, or unusual white space", s)
	}
	return c, nil
}

func parseConstraint(s string) (constraint, error) {
	end := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("=!<>~^|", r) })
	if end < 0 {
		end = len(s)
	}
	op, text := operator(s[:end]), s[end:]
	if op == "" {
		op = equal
	} else {
		text = strings.TrimPrefix(text, " ")
	}
	if err := checkOperator(op); err != nil {
		return constraint{}, err
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

// checkOperator returns an error for an unknown operator, with a hint for
// operators of other tools.
func checkOperator(op operator) error {
	if op != sameMajor && slices.Contains(operators, op) {
		return nil
	}
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
		return WithHint(errors.New("has alternatives, which cannot be expressed"),
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
		if !item.admits(v) {
			return false
		}
		named = named || item.op == equal
	}
	return named || !v.Prerelease()
}

// admits reports whether v meets c, with no special rule for pre-releases.
// Build metadata counts only for = and !=.
func (c constraint) admits(v Version) bool {
	order := comparePrecedence(v, c.boundary)
	switch c.op {
	case equal:
		return v == c.boundary
	case notEqual:
		return v != c.boundary
	case greater:
		return order > 0
	case greaterOrEqual:
		return order >= 0
	case less:
		return order < 0
	case lessOrEqual:
		return order <= 0
	default:
		return order >= 0 && comparePrecedence(v, c.end()) < 0
	}
}

// end returns the first release above the range of "~>".
func (c constraint) end() Version {
	core := c.boundary.core
	if c.op == sameMajor {
		return Version{core: [3]uint64{core[0] + 1}}
	}
	return Version{core: [3]uint64{core[0], core[1] + 1}}
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
		cmp.Compare(slices.Index(operators, c.op), slices.Index(operators, d.op)),
	)
}

func (c constraint) String() string {
	switch c.op {
	case equal:
		return c.boundary.text
	case sameMajor:
		return "~> " + c.boundary.format(2)
	default:
		return string(c.op) + " " + c.boundary.text
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
