package installer

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// A Bar is the rule that excludes a version.
type Bar string

// The rules, in the order in which they apply.
const (
	Constrained     Bar = "constraint"
	Prereleased     Bar = "pre-release" // and no constraint requires exactly this version
	Excluded        Bar = "policy"
	NotOffered      Bar = "not offered"
	WithoutPlatform Bar = "platform"
	WrongProtocol   Bar = "protocol"
	LockedOut       Bar = "lock file"
)

// A Candidate is a version that is known, and what is known about it.
type Candidate struct {
	Version    sources.Version
	Offered    bool              // an installation method that takes part has it
	NoPlatform bool              // it is known to have no package for a requested platform
	NoProtocol bool              // it is known to have no protocol that the engine supports
	Excluded   *policy.Violation // why the policy excludes it; nil if it doesn't
}

// A Weighed version is one that could be chosen, with the first rule that excludes it.
type Weighed struct {
	Version  sources.Version
	Bar      Bar            // empty if nothing excludes it
	By       sources.Origin // the constraint, for Constrained and Prereleased
	Together bool           // only all constraints together exclude it, so By is zero

	Excluded *policy.Violation // why the policy excludes it, whatever else does; nil if it doesn't
}

// Weigh returns all candidates for a requirement, the newest first, each with the first rule that excludes it.
// A version older than the locked one is not excluded by the lock file. The zero Version is locked if the lock
// file has no entry.
func Weigh(req sources.Requirement, locked sources.Version, all []Candidate) []Weighed {
	all = slices.SortedFunc(slices.Values(all), func(a, b Candidate) int { return b.Version.Compare(a.Version) })
	w := weighing{req: req, locked: locked}
	for _, from := range req.From {
		if c, err := sources.ParseConstraints(from.Constraint); err == nil {
			w.from, w.alone = append(w.from, from), append(w.alone, c)
		}
	}
	weighed := make([]Weighed, len(all))
	for i, c := range all {
		weighed[i] = w.weigh(c)
		weighed[i].Excluded = c.Excluded
	}
	return weighed
}

// A weighing is a requirement with its parsed constraints.
type weighing struct {
	req    sources.Requirement
	locked sources.Version
	from   []sources.Origin      // those with a constraint
	alone  []sources.Constraints // of each of them
}

// weigh returns a candidate with the first rule that excludes it.
func (w *weighing) weigh(c Candidate) Weighed {
	v := c.Version
	switch {
	case !w.req.Constraints.Allow(v) && (!w.req.Recorded || v != w.locked):
		return w.refused(v)
	case c.Excluded != nil:
		return Weighed{Version: v, Bar: Excluded}
	case !c.Offered:
		return Weighed{Version: v, Bar: NotOffered}
	case c.NoPlatform:
		return Weighed{Version: v, Bar: WithoutPlatform}
	case c.NoProtocol:
		return Weighed{Version: v, Bar: WrongProtocol}
	case w.locked != (sources.Version{}) && v.Compare(w.locked) > 0:
		return Weighed{Version: v, Bar: LockedOut}
	}
	return Weighed{Version: v}
}

// refused returns a version that the constraints refuse, with the first that refuses it.
func (w *weighing) refused(v sources.Version) Weighed {
	release := releaseOf(v)
	for i, c := range w.alone {
		if !c.Allow(v) && !c.Allow(release) {
			return Weighed{Version: v, Bar: Constrained, By: w.from[i]}
		}
	}
	if !v.Prerelease() || !w.req.Constraints.Empty() && len(w.from) == 0 && !w.req.Constraints.Allow(release) {
		return Weighed{Version: v, Bar: Constrained, Together: true}
	}
	return Weighed{Version: v, Bar: Prereleased, By: w.unnamed(v)}
}

// unnamed returns the first place that does not require exactly the pre-release v.
func (w *weighing) unnamed(v sources.Version) sources.Origin {
	for i, c := range w.alone {
		if !c.Allow(v) {
			return w.from[i]
		}
	}
	if len(w.req.From) > 0 {
		return w.req.From[0]
	}
	return sources.Origin{}
}

// releaseOf returns the release that follows a pre-release, or a release itself.
func releaseOf(v sources.Version) sources.Version {
	if !v.Prerelease() {
		return v
	}
	core, _, _ := strings.Cut(v.String(), "-")
	release, _ := sources.ParseVersion(core) // part of a version
	return release
}

// Relax returns the constraint of a place, changed as little as possible so that it allows v. The result has the
// operators of the original, and its versions have as many numbers. For a pre-release, or if the original is invalid,
// it is the exact version.
func Relax(by sources.Origin, v sources.Version) string {
	if _, err := sources.ParseConstraints(by.Constraint); err != nil {
		return v.String()
	}
	var parts []string
	for part := range strings.SplitSeq(by.Constraint, ",") {
		part = strings.TrimSpace(part)
		if c, err := sources.ParseConstraints(part); err != nil || !c.Allow(v) {
			part = relaxPart(part, v)
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	text := strings.Join(parts, ", ")
	if c, err := sources.ParseConstraints(text); err != nil || !c.Allow(v) || v.Prerelease() {
		return v.String()
	}
	return text
}

// relaxPart changes a constraint with one operator. The result is empty if the operator has to go.
func relaxPart(part string, v sources.Version) string {
	boundary := strings.TrimLeft(part, "=!<>~")
	op := strings.TrimSuffix(part, boundary)
	boundary, _, _ = strings.Cut(strings.TrimSpace(boundary), "-")
	n := strings.Count(boundary, ".") + 1
	switch op {
	case "~>":
		return "~> " + numbersOf(v, n)
	case ">=", ">":
		return ">= " + numbersOf(v, n)
	case "<=":
		return "<= " + v.String()
	case "<":
		return "< " + boundAbove(boundary, v)
	case "!=":
		return ""
	}
	return v.String()
}

// numbersOf returns the first n numbers of v.
func numbersOf(v sources.Version, n int) string {
	return strings.Join(strings.Split(releaseOf(v).String(), ".")[:min(n, 3)], ".")
}

// boundAbove returns a bound like the given one, but above v: "2.0.0" becomes "3.0.0" for 2.1.0, and "2.1" becomes
// "2.4" for 2.3.0.
func boundAbove(bound string, v sources.Version) string {
	numbers, of := strings.Split(bound, "."), strings.Split(releaseOf(v).String(), ".")
	raised := 0
	for raised+1 < len(numbers) && numbers[raised] == of[raised] && strings.Trim(strings.Join(numbers[raised+1:], ""), "0") != "" {
		raised++
	}
	n, err := strconv.ParseUint(of[raised], 10, 64)
	if err != nil || n == math.MaxUint64 {
		return bound // Relax returns v then
	}
	for i := range numbers {
		numbers[i] = "0"
	}
	copy(numbers, of[:raised])
	numbers[raised] = strconv.FormatUint(n+1, 10)
	return strings.Join(numbers, ".")
}
