package sources

import (
	"errors"
	"fmt"
	"strings"
)

// A Pattern matches provider addresses: [HOST/]NAMESPACE/TYPE with "*" for
// whole segments. Without a host it matches on the default registries of all
// engines: a root module chooses its engine, but not the user's rules.
type Pattern struct{ Host, Namespace, Type string }

const wildcard = "*"

// ParsePattern parses a pattern in a rule of the user, such as an item of an
// include or exclude list. The result doesn't depend on the engine.
func ParsePattern(s string) (Pattern, error) {
	pt, err := parsePattern(s)
	if err != nil {
		return Pattern{}, meantPattern(s, fmt.Errorf("provider pattern %q: %w", s, err))
	}
	return pt, nil
}

// meantPattern adds what to write to the error for a pattern that is only a host, or a host and a namespace, or that is
// for all hosts.
func meantPattern(s string, err error) error {
	meant := strings.TrimPrefix(s, wildcard+"/")
	if host, rest, _ := strings.Cut(s, "/"); strings.ContainsAny(host, ".:") && !strings.Contains(rest, "/") {
		meant = s + strings.Repeat("/"+wildcard, 2-strings.Count(s, "/"))
	}
	if _, wrong := parsePattern(meant); wrong == nil {
		return WithHint(err, "write %q", meant)
	}
	return err
}

func parsePattern(s string) (pt Pattern, err error) {
	parts, err := splitAddress(s)
	if err != nil {
		return pt, errors.New("not of the form [HOST/]NAMESPACE/TYPE")
	}
	if len(parts) == 1 {
		err := errors.New("not of the form [HOST/]NAMESPACE/TYPE")
		if strings.ContainsAny(s, ".:") { // a host, see meantPattern
			return pt, err
		}
		return pt, WithHint(err, "*/* means all providers of the default registries, */*/* those of all registries")
	}
	if len(parts) == 3 {
		if pt.Host, err = patternSegment(parts[0], parseHostText); err != nil {
			return pt, err
		}
	}
	parts = parts[len(parts)-2:]
	pt.Namespace, err = patternSegment(parts[0], func(s string) (string, error) {
		return normalizeNamespace(s, Terraform) // which allows more
	})
	if err != nil {
		return pt, fmt.Errorf("namespace %q: %w", parts[0], err)
	}
	if pt.Type, err = patternSegment(parts[1], normalizeName); err != nil {
		return pt, fmt.Errorf("type %q: %w", parts[1], err)
	}
	return pt, pt.checkWildcards()
}

func parseHostText(s string) (string, error) {
	h, err := ParseHost(s)
	return string(h), err
}

func patternSegment(s string, parse func(string) (string, error)) (string, error) {
	if s == wildcard {
		return s, nil
	}
	return parse(s)
}

func (pt Pattern) checkWildcards() error {
	if pt.Host == wildcard && pt.Namespace != wildcard {
		return errors.New("if the host is *, the namespace must be * too")
	}
	if pt.Namespace == wildcard && pt.Type != wildcard {
		return errors.New("if the namespace is *, the type must be * too")
	}
	return nil
}

// Match reports whether p matches the pattern.
func (pt Pattern) Match(p Provider) bool {
	return (matchSegment(pt.Host, string(p.Host)) || pt.Host == "" && p.Host.Default()) &&
		matchSegment(pt.Namespace, p.Namespace) &&
		matchSegment(pt.Type, p.Type)
}

func matchSegment(pattern, s string) bool { return pattern == wildcard || pattern == s }

// String returns the canonical form.
func (pt Pattern) String() string {
	return strings.TrimPrefix(pt.Host+"/"+pt.Namespace+"/"+pt.Type, "/")
}
