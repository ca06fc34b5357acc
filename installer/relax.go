package installer

import (
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Relax returns a constraint that allows v, in place of the one of a place that doesn't. A single ~> or >= keeps its
// operator and its number of numbers, and others become ~> with two. In place of an exact version, or for a
// pre-release, it is the exact version.
func Relax(by sources.Origin, v sources.Version) string {
	text := strings.TrimSpace(by.Constraint)
	operator, n := "~>", 2
	switch several := strings.Contains(text, ","); {
	case !several && strings.TrimLeft(text, "=0123456789") != text:
		return v.String()
	case !several && (strings.HasPrefix(text, "~>") || strings.HasPrefix(text, ">=")):
		operator, n = text[:2], min(strings.Count(text, ".")+1, 3)
	}
	relaxed := operator + " " + strings.Join(strings.Split(v.String(), ".")[:n], ".")
	if c, err := sources.ParseConstraints(relaxed); err != nil || !c.Allow(v) {
		return v.String()
	}
	return relaxed
}
