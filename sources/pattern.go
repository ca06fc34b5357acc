package sources

import (
	"errors"
	"fmt"
)

// A Pattern matches provider addresses: [HOST/]NAMESPACE/TYPE with "*" for
// whole segments.
type Pattern struct{ Host, Namespace, Type string }

const wildcard = "*"

// ParsePattern parses an item of an include or exclude list. Without a host it
// means e's default host.
func ParsePattern(s string, e Engine) (Pattern, error) {
	pt, err := parsePattern(s, e)
	if err != nil {
		return Pattern{}, fmt.Errorf("provider pattern %q: %w", s, err)
	}
	return pt, nil
}

func parsePattern(s string, e Engine) (pt Pattern, err error) {
	parts, err := splitAddress(s)
	if err != nil {
		return pt, errors.New("not of the form [HOST/]NAMESPACE/TYPE")
	}
	if len(parts) == 1 {
		return pt, WithHint(errors.New("not of the form [HOST/]NAMESPACE/TYPE"),
			"*/* means all providers of the default registry, */*/* those of all registries")
	}
	pt.Host = string(e.DefaultHost())
	if len(parts) == 3 {
		if pt.Host, err = patternSegment(parts[0], parseHostText); err != nil {
			return pt, err
		}
	}
	parts = parts[len(parts)-2:]
	pt.Namespace, err = patternSegment(parts[0], func(s string) (string, error) { return normalizeNamespace(s, e) })
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
	return matchSegment(pt.Host, string(p.Host)) &&
		matchSegment(pt.Namespace, p.Namespace) &&
		matchSegment(pt.Type, p.Type)
}

func matchSegment(pattern, s string) bool { return pattern == wildcard || pattern == s }

// String returns the canonical form, always HOST/NAMESPACE/TYPE.
func (pt Pattern) String() string { return pt.Host + "/" + pt.Namespace + "/" + pt.Type }
