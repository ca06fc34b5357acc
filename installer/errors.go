package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A NoVersionError reports that sources have a provider, but no acceptable version.
type NoVersionError struct {
	Requirement sources.Requirement
	Offered     []sources.Version // the newest few, the newest first
	Older       int               // how many there are besides
	From        []string          // the sources that have the provider, as named in messages
}

// mostOffered is how many versions a [NoVersionError] keeps. A hostile source may list many.
const mostOffered = 5

// NoVersion returns the error that none of the versions of a listing is acceptable.
func NoVersion(req sources.Requirement, listing sources.Listing) *NoVersionError {
	all := newestFirst(listing.Versions)
	shown := slices.Clone(all[:min(len(all), mostOffered)])
	return &NoVersionError{req, shown, len(all) - len(shown), listing.From}
}

func (e *NoVersionError) Error() string {
	switch {
	case len(e.Offered) == 0:
		return "no versions are available from " + strings.Join(e.From, ", ")
	case e.Requirement.Constraints.Empty():
		return "only pre-releases are available: " + e.offer()
	default:
		return e.Cause() + places(e.Requirement)
	}
}

// Cause returns the text without the places of the constraints.
func (e *NoVersionError) Cause() string {
	if len(e.Offered) == 0 || e.Requirement.Constraints.Empty() {
		return e.Error()
	}
	return fmt.Sprintf("no version matches %q (offered: %s)", e.Requirement.Constraints, e.offer())
}

// offer lists the newest available versions.
func (e *NoVersionError) offer() string {
	text := strings.Join(sources.Texts(e.Offered), ", ")
	if e.Older > 0 {
		text += fmt.Sprintf(" and %d older", e.Older)
	}
	return text
}

// places lists the places that constrain a provider, one on each line.
func places(req sources.Requirement) string {
	var all []string
	for _, from := range req.From {
		if from.Constraint != "" {
			all = append(all, fmt.Sprintf("\n  %s: %s", place(from), from.Constraint))
		}
	}
	// Any number of root modules may have the same constraint.
	return sources.JoinSome(all, 20, "", "\n  and %d other places")
}

func place(o sources.Origin) string {
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// A LockConflictError reports a locked version that can no longer be chosen.
type LockConflictError struct {
	Requirement sources.Requirement
	Locked      sources.Version
	Gone        bool // whether all sources lack it; otherwise the constraints refuse it
	ReadOnly    bool // whether the lock file must not change

	Instead sources.Version // the newest that could be locked instead, if it is gone; zero if there is none
}

func (e *LockConflictError) Error() string {
	if e.Gone {
		return fmt.Sprintf("version %s, which the dependency lock file selects, is no longer available", e.Locked)
	}
	return e.Cause() + places(e.Requirement)
}

// Cause returns the text without the places of the constraints.
func (e *LockConflictError) Cause() string {
	if e.Gone {
		return e.Error()
	}
	return fmt.Sprintf("the dependency lock file selects %s, which does not match %q", e.Locked, e.Requirement.Constraints)
}

func (j *job) noneAllowed(listing sources.Listing) error {
	err := &sources.ProviderError{Provider: j.req.Provider, Err: NoVersion(j.req, listing)}
	switch {
	case len(listing.Versions) == 0 && len(listing.Warnings) > 0:
		return sources.WithHint(err, "the warnings show what was listed instead of versions: "+
			"report this to the operator of the registry or mirror")
	case len(listing.Versions) == 0:
		return sources.WithHint(err, "check the address; the provider may have no release yet")
	case j.req.Constraints.Empty():
		return sources.WithHint(err, "to use a pre-release, require its exact version")
	}
	return err
}

// required is requiredBy for errors about the provider itself. If it does not exist
// and its address may be implied, it suggests another provider.
func (j *job) required(err error) error {
	var missing *sources.NotFoundError
	if errors.As(err, &missing) && j.req.Provider.Implied(j.engine) {
		err = j.suggest(missing)
	}
	if !errors.Is(err, sources.ErrNotFound) {
		return err
	}
	return j.requiredBy(err)
}

// suggest adds a hint with the provider that was probably meant: one of the same type
// that the configuration also requires, or the one that the registry names.
func (j *job) suggest(missing *sources.NotFoundError) error {
	var meant []string
	for _, p := range j.root.providers() {
		if p.Type == missing.Provider.Type && p != missing.Provider {
			meant = append(meant, p.String())
		}
	}
	if len(meant) == 0 && missing.Moved != (sources.Provider{}) {
		meant = append(meant, missing.Moved.String())
	}
	switch {
	case len(meant) > 0:
		return sources.WithHint(missing, "did you mean %s? "+
			"Give it as the source in required_providers of every module that uses the provider",
			strings.Join(meant, " or "))
	case missing.Registry && len(j.req.From) == 0:
		return sources.WithHint(missing,
			"if the provider is not HashiCorp's, write its namespace, as in NAMESPACE/%s", missing.Provider.Type)
	case missing.Registry:
		return sources.WithHint(missing, "if the provider is not HashiCorp's, "+
			"every module that uses it must give its source in required_providers")
	}
	return missing
}

// gone returns the error about a locked version that a listing lacks.
func (j *job) gone(ctx context.Context, listing sources.Listing) error {
	return j.lockConflict(LockConflictError{Gone: true, Instead: j.rules().Newest(ctx, listing)})
}

// lockConflict returns the error about a locked version that can't be chosen.
func (j *job) lockConflict(err LockConflictError) error {
	err.Requirement, err.Locked, err.ReadOnly = j.req, j.locked.Version, j.root.LockMode != ""
	return &sources.ProviderError{Provider: j.req.Provider, Err: &err}
}

func newestFirst(vs []sources.Version) []sources.Version {
	return slices.SortedFunc(slices.Values(vs), func(v, w sources.Version) int { return w.Compare(v) })
}

// A MissingError reports a package that must be downloaded, under --offline.
type MissingError struct {
	Requirement sources.Requirement
	Version     sources.Version // zero if only a source could determine it
	Platform    sources.Platform
	Err         error // matches sources.ErrOffline
	Hashed      bool  // its hashes are recorded, but not its publisher's checksums
	Damaged     bool  // it is in the cache, but its contents differ from the verified ones
	Mismatched  bool  // it is in the cache, but the lock file has other hashes

	here []unfit // versions on this machine that can't be chosen, the newest first
}

func (e *MissingError) Error() string {
	version := e.Version.String()
	if exact, err := sources.ParseVersion(e.Requirement.Constraints.String()); err == nil && version == "" {
		version = exact.String() // nothing has to be chosen
	}
	if version == "" {
		wanted := "a version"
		if !e.Requirement.Constraints.Empty() {
			wanted = fmt.Sprintf("a version that matches %q", e.Requirement.Constraints)
		}
		text := fmt.Sprintf("%s %s: no version is locked, and choosing %s needs the network (--offline)",
			e.Requirement.Provider, e.Platform, wanted)
		if len(e.here) > 0 {
			text += "; this machine has " + unfitTexts(e.here)
		}
		return text
	}
	return fmt.Sprintf("%s %s %s %s, and --offline is set", e.Requirement.Provider, version, e.Platform, e.lacks())
}

// lacks says why the package must be downloaded.
func (e *MissingError) lacks() string {
	switch {
	case e.Damaged:
		return "is damaged in the plugin cache"
	case e.Mismatched:
		return "is in the plugin cache with hashes that the lock file lacks"
	case e.Hashed:
		return "has no signed checksums on this machine"
	}
	return "is not on this machine"
}

func (e *MissingError) Unwrap() error { return e.Err }

// Cause returns the text without the package. It is empty if no version could be chosen.
func (e *MissingError) Cause() string {
	if e.Version == (sources.Version{}) {
		return ""
	}
	_, lacks, _ := strings.Cut(e.lacks(), " ") // without the verb
	return lacks + ", and --offline is set"
}

// Unverified reports whether a package on this machine might be used if this user had a record of it.
func (e *MissingError) Unverified() bool {
	return slices.ContainsFunc(e.here, func(u unfit) bool { return u.why == sources.Unverified.String() })
}

// missing replaces an error about the missing network by one for each package that
// requires the network.
func (j *job) missing(err error) error {
	if !errors.Is(err, sources.ErrOffline) {
		return err
	}
	var errs []error
	for _, platform := range j.opts.Platforms {
		l := j.looked[platform]
		if l.suffices() {
			continue
		}
		h, locked := l.held, j.lockedHashes()
		matches := sources.MatchesAny(locked, h.Hashes()...)
		var missing error = &MissingError{
			Requirement: j.req, Version: j.version, Platform: platform, Err: err, here: j.unfit,
			Damaged: h.Differs != "", Mismatched: len(locked) > 0 && len(h.Hashes()) > 0 && !matches,
		}
		if h.Differs == "" && matches && !j.acquirer.Proven(h) {
			unsigned := j.opts.Judge.Check(h.ID, j.opts.Judge.Report(h.ID.Provider, h.Proof))
			missing = sources.InPackage(h.ID, unsigned) // it is here, but not signed as required
		}
		if slices.ContainsFunc(j.unfit, func(u unfit) bool { return u.why == unverifiedInMirror }) {
			missing = sources.WithHint(missing, "to install unverified packages from a mirror, "+
				"exclude the provider from the other installation methods")
		}
		errs = append(errs, j.requiredBy(missing))
	}
	if len(errs) == 0 {
		return err
	}
	return errors.Join(errs...)
}

// requiredBy adds to an error the places that require the provider, which may be deep
// in third-party modules, unless it lists them.
func (j *job) requiredBy(err error) error {
	if none, ok := errors.AsType[*NoVersionError](err); ok && none.Error() != none.Cause() {
		return err
	}
	var by []string
	for _, from := range j.req.From {
		by = append(by, place(from))
	}
	if len(by) == 0 {
		return err
	}
	const most = 5 // any resource is such a place
	provider := "the provider"
	if errors.Is(err, sources.ErrNoPlatform) { // shown once for several providers, with all hints
		provider = j.req.Provider.String()
	}
	return sources.WithHint(err, "%s is required by %s", provider,
		sources.JoinSome(slices.Compact(by), most, ", ", ", and %d other places"))
}
