package installer

import (
	"errors"
	"fmt"

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

// Rules decide which version of a provider a root module gets. What chooses a version, and what foretells or explains
// the choice, ask the same rules.
type Rules struct {
	Requirement sources.Requirement
	Locked      sources.Version // zero if the lock file has no entry
	Policy      *policy.Policy  // which has learned the ages of the versions; nil allows everything

	// Lacks returns what is known to prevent the installation of a version: [NotOffered], [WithoutPlatform],
	// [WrongProtocol], or "". If it is nil, nothing is known.
	Lacks func(sources.Version) Bar
}

// A Candidate is a version that could be chosen, with the first rule that excludes it.
type Candidate struct {
	Version  sources.Version
	Bar      Bar            // empty if nothing excludes it
	By       sources.Origin // the constraint, for Constrained and Prereleased
	Together bool           // only all constraints together exclude it, so By is zero

	Excluded *policy.Violation // why the policy excludes it, whatever else does; nil if it doesn't
}

// Upgradable reports whether an upgrade can choose the version: at most the lock file excludes it.
func (c Candidate) Upgradable() bool { return c.Bar == "" || c.Bar == LockedOut }

// String returns the version with the reason of the policy and, if it will be allowed later, the time.
func (c Candidate) String() string {
	text := fmt.Sprintf("%s (%v", c.Version, c.Excluded)
	if from := c.Excluded.From(); from != "" {
		text += "; it will be allowed from " + from
	}
	return text + ")"
}

// Candidates returns versions, the newest first, each with the first rule that excludes it. A version older than the
// locked one is not excluded by the lock file.
func (r Rules) Candidates(versions []sources.Version) []Candidate {
	all := make([]Candidate, len(versions))
	for i, v := range newestFirst(versions) {
		all[i] = r.Candidate(v)
	}
	return all
}

// Candidate returns a version with the first rule that excludes it.
func (r Rules) Candidate(v sources.Version) Candidate {
	c := Candidate{Version: v}
	check := r.Policy.Check
	if v == r.Locked {
		check = r.Policy.CheckLocked
	}
	c.Excluded, _ = errors.AsType[*policy.Violation](check(r.Requirement.Provider, v))
	lacks := Bar("")
	if r.Lacks != nil {
		lacks = r.Lacks(v)
	}
	switch {
	case !r.Requirement.Constraints.Allow(v) && (!r.Requirement.Recorded || v != r.Locked):
		r.refuse(&c)
	case c.Excluded != nil:
		c.Bar = Excluded
	case lacks != "":
		c.Bar = lacks
	case r.Locked != (sources.Version{}) && v.Compare(r.Locked) > 0:
		c.Bar = LockedOut
	}
	return c
}

// refuse names the first constraint that refuses a version, which they refuse together.
func (r Rules) refuse(c *Candidate) {
	release, stated := c.Version.Release(), false
	var unnamed *sources.Origin // the first place that doesn't require exactly this version
	for _, from := range r.Requirement.From {
		constraints, err := sources.ParseConstraints(from.Constraint)
		if err != nil {
			continue
		}
		switch stated = true; {
		case constraints.Allow(c.Version):
		case !constraints.Allow(release):
			c.Bar, c.By = Constrained, from
			return
		case unnamed == nil:
			unnamed = &from
		}
	}
	all := r.Requirement.Constraints
	if !c.Version.Prerelease() || !all.Empty() && !stated && !all.Allow(release) {
		c.Bar, c.Together = Constrained, true
		return
	}
	if c.Bar = Prereleased; unnamed != nil {
		c.By = *unnamed
	} else if len(r.Requirement.From) > 0 {
		c.By = r.Requirement.From[0]
	}
}
