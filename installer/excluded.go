package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// How the policy takes part in the choice of a version. Every package is checked again by the Judge, whatever
// was chosen.

// An ExcludedError reports that the policy excludes the locked version, or all versions that the constraints
// allow. It wraps the [policy.Violation] of one version.
type ExcludedError struct {
	Version sources.Version // the locked one, or the newest
	Locked  bool
	Instead sources.Version // the newest that could be locked instead; zero if none is known
	Err     error
}

func (e *ExcludedError) Error() string {
	if e.Locked {
		return fmt.Sprintf("the lock file selects %s: %v", e.Version, e.Err)
	}
	return fmt.Sprintf("no version is allowed: %s: %v", e.Version, e.Err)
}

func (e *ExcludedError) Unwrap() error { return e.Err }

// policy returns the policy of the run, which may be nil.
func (in *Installer) policy() *policy.Policy { return in.opts.Judge.Options.Policy }

// checkProvider returns an error if the policy excludes every version of the provider.
func (j *job) checkProvider() error { return j.ofProvider(j.policy().CheckProvider(j.req.Provider)) }

// ofProvider adds the provider, and who requires it, to an error.
func (j *job) ofProvider(err error) error {
	if err == nil {
		return nil
	}
	return j.requiredBy(&sources.ProviderError{Provider: j.req.Provider, Err: err})
}

// AcceptLocked returns a [policy.Violation] if the policy doesn't allow the version that a lock file selects. If
// nothing is known about its age, it lists the versions first, because a source may vouch for it.
func AcceptLocked(
	ctx context.Context, rules *policy.Policy, p sources.Provider, v sources.Version, list func() (sources.Listing, error),
) error {
	if err := rules.Learn(ctx, p, v); err != nil {
		return err
	}
	err := rules.AcceptLocked(p, v)
	found, _ := errors.AsType[*policy.Violation](err)
	if found == nil || found.Rule.Setting != policy.MinAge || found.Age.Known {
		return err
	}
	listing, listErr := list()
	rules.See(ctx, p, listing) // with an error, what sources on this machine list
	if err = rules.AcceptLocked(p, v); err != nil && acquire.UnlessNotFound(listErr) != nil {
		err = fmt.Errorf("%w; its versions are unknown: %s", err, sources.Reason(listErr))
	}
	return err
}

// checkLockedVersion returns an error if the policy excludes the locked version.
func (j *job) checkLockedVersion(ctx context.Context) error {
	v, list := j.locked.Version, func() (sources.Listing, error) { return j.versions(ctx) }
	err := AcceptLocked(ctx, j.policy(), j.req.Provider, v, list)
	if err == nil || ctx.Err() != nil {
		return err
	}
	excluded := &ExcludedError{Version: v, Locked: true, Err: err}
	if listing, listErr := list(); listErr == nil {
		excluded.Instead = j.rules().Newest(ctx, listing)
	}
	return j.ofProvider(excluded)
}

// keepLocked accepts the chosen version if it is the locked one.
func (j *job) keepLocked() error {
	if j.version != j.locked.Version {
		return nil
	}
	return j.policy().AcceptLocked(j.req.Provider, j.version)
}

// rules returns what decides about the versions.
func (j *job) rules() Rules {
	return Rules{Requirement: j.req, Locked: j.locked.Version, Policy: j.policy()}
}

// Newest returns the newest version of a listing that an upgrade can choose. It is zero if there is none.
func (r Rules) Newest(ctx context.Context, listing sources.Listing) (newest sources.Version) {
	if all, _, err := r.Admitted(ctx, listing); err == nil && len(all) > 0 {
		newest = all[0]
	}
	return newest
}

// Admitted returns the versions of a listing that constraints and policy allow, and those that only the policy
// excludes, both the newest first. It fails only if the context is done.
func (r Rules) Admitted(
	ctx context.Context, listing sources.Listing,
) (all []sources.Version, excluded []Candidate, err error) {
	matching := slices.DeleteFunc(slices.Clone(listing.Versions), func(v sources.Version) bool {
		return !r.Requirement.Constraints.Allow(v)
	})
	if err := r.Policy.Learn(ctx, r.Requirement.Provider, matching...); err != nil {
		return nil, nil, err
	}
	r.Policy.See(ctx, r.Requirement.Provider, listing)
	for _, c := range r.Candidates(matching) {
		if c.Upgradable() {
			all = append(all, c.Version)
		} else {
			excluded = append(excluded, c)
		}
	}
	return all, excluded, nil
}

// reportPassed reports which versions were skipped, if there are any.
func (j *job) reportPassed() {
	if len(j.passed) > 0 {
		text := sources.JoinSome(sources.Texts(j.passed), 3, ", ", " and %d older")
		of := sources.PackageID{Provider: j.req.Provider}
		j.acquirer.Report(acquire.Event{Step: acquire.Skipped, Package: of, Text: text})
	}
}
