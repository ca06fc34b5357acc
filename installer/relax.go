package installer

import (
	"math"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources"
)

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
