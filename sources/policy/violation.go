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
	Until    time.Time       // of MinAge: when the version will be allowed, if the clock is right
	Override bool            // a development override or a running program replaces the provider
	Err      error           // what is wrong with the signature; nil if the rule is not about signatures
}

func (v *Violation) Unwrap() error { return v.Err }

// Error returns the rule and its place without the subject, which errors around it name.
func (v *Violation) Error() string {
	text := fmt.Sprintf("%s (%s)", v.Because(), v.Rule.Place())
	if v.Rule.Reason != "" {
		text += ": " + v.Rule.Reason
	}
	return text
}

// Because returns the rule, without its place and its reason.
func (v *Violation) Because() string {
	r := v.Rule
	switch {
	case v.Override:
		return fmt.Sprintf("the policy doesn't allow an override, because of %s", r.Setting)
	case r.Setting == Deny:
		return "denied by the policy"
	case r.Setting == Allow:
		return "not among the providers that the policy allows"
	case r.Setting == Versions:
		return fmt.Sprintf("the policy allows only versions %q", r.Text)
	case r.Setting == MinAge:
		return fmt.Sprintf("%s; the policy requires %s", v.Age, r.Text)
	case r.Setting == Engines && v.Version == sources.Version{}:
		return fmt.Sprintf("the policy doesn't allow %s", v.Engine)
	case r.Setting == Engines:
		return fmt.Sprintf("the policy allows only %s %q", v.Engine, r.Engines[v.Engine])
	}
	return fmt.Sprintf("the policy has %s, and %s", r.Setting, v.Err)
}

// String returns the age in words, as in "published 3 days ago".
func (a Age) String() string {
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

// Hint says whom to ask for an exception.
func (v *Violation) Hint() string {
	if v.Rule.Contact != "" {
		return "for an exception: " + strings.TrimSpace(v.Rule.Contact)
	}
	who := map[Layer]string{Site: "whoever manages this machine", Repository: "whoever maintains this repository"}[v.Rule.Layer]
	if who == "" {
		return "for an exception, change " + v.Rule.Place()
	}
	return fmt.Sprintf("for an exception, ask %s to change %s", who, v.Rule.Place())
}
