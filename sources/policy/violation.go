package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A Violation is a provider, a version or an engine that a rule excludes.
type Violation struct {
	Rule     Rule
	Provider sources.Provider
	Engine   sources.Engine  // set if the rule is about engines
	Version  sources.Version // zero if the rule excludes the provider
	Age      Age             // of MinAge
	Until    time.Time       // of MinAge: when it will be allowed, if the clock is right; zero if its age is unknown
	Override bool            // a development override or a running program replaces the provider
	Expired  bool            // of ApprovedBy: a key approved the package, which has expired, or its signature has
	Err      error           // what is wrong with the signature; nil if the rule is not about signatures
}

func (v *Violation) Unwrap() error { return v.Err }

// Error returns the rule with its place and its reason, without the subject, which errors around it name.
func (v *Violation) Error() string {
	if v.Rule.Reason == "" {
		return v.Because()
	}
	return v.Because() + ": " + v.Rule.Reason
}

// Because returns the rule with its place.
func (v *Violation) Because() string {
	r, at := v.Rule, "the policy at "+v.Rule.Place()
	switch {
	case v.Override:
		return fmt.Sprintf("%s has %s, which can't be checked for an override", at, r.Setting)
	case r.Setting == Deny:
		return "denied by " + at
	case r.Setting == Allow:
		return "not among the providers that " + at + " allows"
	case r.Setting == Versions:
		return fmt.Sprintf("%s allows only versions %q", at, r.Text)
	case r.Setting == MinAge:
		return fmt.Sprintf("%s, and %s requires %s", v.Age, at, r.Text)
	case r.Setting == ApprovedBy:
		by := at + " allows only packages in a set that is signed by " + strings.Join(sources.Texts(r.Approvers), " or ")
		if v.Expired {
			by += ", and the signature or its key has expired"
		}
		return by
	case r.Setting == Engines:
		return at + " allows only " + r.allowedEngines(v.Engine)
	}
	return fmt.Sprintf("by %s, %v", at, v.Err)
}

// allowedEngines returns the versions of an engine that the rule allows, or of the other one.
func (r Rule) allowedEngines(e sources.Engine) string {
	if _, listed := r.Engines[e]; !listed {
		for e = range r.Engines { // there are two engines
			break
		}
	}
	return fmt.Sprintf("%s %q", e, r.Engines[e])
}

// String returns the age in words, as in "published 3 days ago".
func (a Age) String() string {
	if !a.Known {
		return "its age is unknown"
	}
	known := "first seen here "
	if a.Stated {
		known = "published "
	}
	switch days := int(a.AtLeast / (24 * time.Hour)); {
	case a.AtLeast < time.Hour:
		return known + "less than an hour ago"
	case days == 0:
		return known + count(int(a.AtLeast/time.Hour), "hour") + " ago"
	default:
		return known + count(days, "day") + " ago"
	}
}

func count(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// From returns the local time from which the version will be allowed, if the clock is right. It is empty if no time
// changes that.
func (v *Violation) From() string {
	if v.Until.IsZero() {
		return ""
	}
	return v.Until.Local().Format("2006-01-02 15:04")
}

// Hint says whom to ask for an exception.
func (v *Violation) Hint() string {
	if v.Rule.Contact != "" {
		return "for an exception: " + strings.TrimSpace(v.Rule.Contact)
	}
	who := map[Layer]string{
		Site: "the administrator of this machine", Repository: "the maintainers of this repository",
	}[v.Rule.Layer]
	if who == "" {
		return "for an exception, change " + v.Rule.Place()
	}
	return fmt.Sprintf("for an exception, ask %s to change %s", who, v.Rule.Place())
}
