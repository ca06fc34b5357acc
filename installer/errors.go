package installer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A NoVersionError says that sources have a provider, but in no version that is
// acceptable.
type NoVersionError struct {
	Requirement sources.Requirement
	Offered     []sources.Version
}

func (e *NoVersionError) Error() string {
	switch {
	case len(e.Offered) == 0:
		return "no version is offered at all"
	case e.Requirement.Constraints.Empty():
		return "no release is offered, only " + e.offer()
	default:
		return fmt.Sprintf("no version matches %q (offered: %s)%s", e.Requirement.Constraints, e.offer(), places(e.Requirement))
	}
}

// offer lists the newest versions there are.
func (e *NoVersionError) offer() string {
	const most = 5
	var names []string
	for _, v := range newestFirst(e.Offered) {
		if len(names) == most {
			return fmt.Sprintf("%s and %d older ones", strings.Join(names, ", "), len(e.Offered)-most)
		}
		names = append(names, v.String())
	}
	return strings.Join(names, ", ")
}

// places lists who constrains a provider, one to a line.
func places(req sources.Requirement) string {
	const most = 20 // any number of root modules may agree
	text, n := "", 0
	for _, from := range req.From {
		if from.Constraint == "" {
			continue
		}
		if n++; n <= most {
			text += fmt.Sprintf("\n  %s: %s", place(from), from.Constraint)
		}
	}
	if n > most {
		text += fmt.Sprintf("\n  and %d other places", n-most)
	}
	return text
}

func place(o sources.Origin) string {
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// A LockConflictError is a locked version that can no longer be chosen.
type LockConflictError struct {
	Requirement sources.Requirement
	Locked      sources.Version
	Gone        bool // no source has it any more; else the constraints refuse it
}

func (e *LockConflictError) Error() string {
	if e.Gone {
		return fmt.Sprintf("version %s, which the dependency lock file selects, is no longer available", e.Locked)
	}
	return fmt.Sprintf("the dependency lock file selects %s, which does not match %q%s",
		e.Locked, e.Requirement.Constraints, places(e.Requirement))
}

func (j *job) noneAllowed(offered []sources.Version) error {
	err := &sources.ProviderError{Provider: j.req.Provider, Err: &NoVersionError{j.req, offered}}
	switch {
	case len(offered) == 0:
		return sources.WithHint(err, "perhaps no installation method is for this provider: check include and exclude in provider_installation")
	case j.req.Constraints.Empty():
		return sources.WithHint(err, "a pre-release is chosen only if its exact version is required")
	}
	return err
}

// required is requiredBy for errors about the provider as such.
func (j *job) required(err error) error {
	if !errors.Is(err, sources.ErrNotFound) {
		return err
	}
	return j.requiredBy(err)
}

// places are where the provider is required, or some of them.
func (j *job) places() []string {
	var by []string
	for _, from := range j.req.From {
		by = append(by, place(from))
	}
	const most = 5 // any resource is such a place
	if by = slices.Compact(by); len(by) > most {
		by = append(by[:most], fmt.Sprintf("and %d other places", len(by)-most))
	}
	return by
}

func (j *job) lockedRefused() error {
	return j.lockConflict(&LockConflictError{Requirement: j.req, Locked: j.locked.Version})
}

func (j *job) lockedGone() error {
	return j.lockConflict(&LockConflictError{Requirement: j.req, Locked: j.locked.Version, Gone: true})
}

func (j *job) lockConflict(err *LockConflictError) error {
	return sources.WithHint(&sources.ProviderError{Provider: j.req.Provider, Err: err},
		"to choose another version, run again with --upgrade")
}

func newestFirst(vs []sources.Version) []sources.Version {
	return slices.SortedFunc(slices.Values(vs), func(v, w sources.Version) int { return w.Compare(v) })
}
