package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
)

// With --offline, a version that is not locked is chosen among those on this machine:
// in the store, in the working directory, and in the mirrors among the installation
// methods. A registry lists the versions that a publisher has released, but files on
// this machine can be anyone's. So only verified packages count.

// An unfit version is on this machine, but is not chosen.
type unfit struct {
	version sources.Version
	why     string
}

func (u unfit) String() string { return fmt.Sprintf("%s (%s)", u.version, u.why) }

// notAllowed is why most versions are not chosen.
const notAllowed = "not allowed"

// chooseHere chooses the newest version on this machine. The listing is that of the
// sources on this machine. If an upgrade finds no newer version, the locked one stays.
// Without a version to choose, the error is the given one, which matches
// [sources.ErrOffline].
func (j *job) chooseHere(ctx context.Context, listing sources.Listing, offline error) error {
	found, err := j.versionsHere(ctx, listing, 1)
	switch {
	case err != nil:
		return err
	case len(found) > 0:
		j.version, j.offline = found[0], true
	case j.keepable():
		j.version = j.locked.Version
		j.warn(fmt.Sprintf("kept %s: this machine has no newer verified version%s%s",
			j.version, j.thatMatches(), j.unknownTo(listing)))
		return j.keepLocked()
	default:
		return offline
	}
	return nil
}

// keepable reports whether the locked version may stay.
func (j *job) keepable() bool {
	v := j.locked.Version
	return v != (sources.Version{}) && j.req.Constraints.Allow(v) && j.policy().CheckLocked(j.req.Provider, v) == nil
}

// versionsHere returns the newest verified versions on this machine that have a package
// for each platform, at most n of them. It keeps the looks at the packages of the newest,
// and warns that there may be newer ones elsewhere.
func (j *job) versionsHere(ctx context.Context, listing sources.Listing, n int) (found []sources.Version, err error) {
	versions, err := j.listHere(ctx, listing)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		if len(found) == n || j.keepable() && v.Compare(j.locked.Version) <= 0 {
			break
		}
		looks, why := j.lookHere(ctx, v, slices.Contains(listing.Versions, v))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if why != "" {
			j.unfit = append(j.unfit, unfit{v, why})
			continue
		}
		if found = append(found, v); len(found) == 1 {
			j.looked = looks
		}
	}
	if len(found) > 0 {
		plural := ""
		if len(found) > 1 {
			plural = "s"
		}
		j.warn(fmt.Sprintf("chose %s, the newest verified version%s on this machine%s%s",
			strings.Join(sources.Texts(found), ", "), plural, j.thatMatches(), j.unknownTo(listing)))
	}
	return found, nil
}

func (j *job) warn(text string) {
	j.acquirer.Warn(sources.PackageID{Provider: j.req.Provider}, text)
}

// thatMatches names the constraints, if there are any.
func (j *job) thatMatches() string {
	if j.req.Constraints.Empty() {
		return ""
	}
	return fmt.Sprintf(" that %q allows", j.req.Constraints)
}

// unknownTo describes what a choice on this machine could not consider.
func (j *job) unknownTo(listing sources.Listing) string {
	skipped := slices.DeleteFunc(slices.Clone(j.unfit), func(u unfit) bool { return u.why == notAllowed })
	text := ""
	if len(skipped) > 0 {
		text = "; skipped " + unfitTexts(skipped)
	}
	return text + "; --offline: " + strings.Join(listing.Unasked, ", ") + " may have newer ones"
}

// unfitTexts lists unfit versions with the reasons.
func unfitTexts(all []unfit) string {
	return sources.JoinSome(sources.Texts(all), 10, ", ", " and %d older")
}

// listHere lists the versions on this machine, the newest first.
func (j *job) listHere(ctx context.Context, listing sources.Listing) ([]sources.Version, error) {
	ids, err := j.into.PackagesOf(ctx, j.req.Provider)
	if err == nil && j.workdir != nil {
		var installed []sources.PackageID
		installed, err = j.workdir.PackagesOf(ctx, j.req.Provider)
		ids = append(ids, installed...)
	}
	all := slices.Clone(listing.Versions)
	for _, id := range ids {
		all = append(all, id.Version)
	}
	all = slices.Compact(newestFirst(all))
	err = errors.Join(err, j.policy().Learn(ctx, j.req.Provider, all...))
	j.policy().See(ctx, j.req.Provider, listing)
	return all, err
}

// lookHere looks for verified packages of a version for all platforms. Those in mirrors
// count if they list the version. It returns why the version can't be chosen, or "".
func (j *job) lookHere(
	ctx context.Context, v sources.Version, mirrored bool,
) (looks map[sources.Platform]look, why string) {
	if !j.req.Constraints.Allow(v) {
		return nil, notAllowed
	}
	if err := j.policy().Check(j.req.Provider, v); err != nil {
		return nil, err.Error()
	}
	looks = map[sources.Platform]look{}
	for _, platform := range j.opts.Platforms {
		l, why := j.lookFor(ctx, sources.PackageID{Provider: j.req.Provider, Version: v, Platform: platform}, mirrored)
		if why != "" {
			return nil, why
		}
		if l.suffices() {
			looks[platform] = l
		}
	}
	return looks, ""
}

// lookFor looks for a verified package, first where mirrors aren't. It returns why there is
// none.
func (j *job) lookFor(ctx context.Context, id sources.PackageID, mirrored bool) (found look, why string) {
	var slot acquire.Slot
	defer slot.Leave()
	req := j.request(id, &slot)
	if err := j.acquirer.Enter(ctx, req); err != nil {
		return look{}, err.Error()
	}
	if found, why = j.lookAt(ctx, id); why == "" || !mirrored {
		return found, why
	}
	pkg, err := j.acquirer.Appraise(ctx, req)
	switch {
	case errors.Is(err, sources.ErrNotFound), errors.Is(err, sources.ErrOffline):
		return look{}, why
	case err != nil:
		return look{}, sources.Reason(err)
	case !pkg.Proof.Any():
		return look{}, unverifiedInMirror
	}
	return look{}, ""
}

// unverifiedInMirror is why some versions are not chosen.
const unverifiedInMirror = "unverified in the mirror"

// lookAt looks for a verified package in the working directory and the store. It returns
// why there is none. To lock another platform, recorded hashes suffice if the package is
// missing. Those for this platform do not: every command must choose the version that an
// installation can have.
func (j *job) lookAt(ctx context.Context, id sources.PackageID) (found look, why string) {
	if j.workdir != nil {
		held, err := j.workdir.Get(ctx, id)
		if why = j.unusable(held, err); err == nil && why == "" {
			return look{installed: true, held: held}, ""
		}
	}
	held, err := j.into.Get(ctx, id)
	other := j.unusable(held, err)
	if err != nil && other == "" && why == "" && j.toLock && id.Platform != sources.CurrentPlatform() {
		if held, err = j.into.Recall(id); err == nil && (!hasEvidence(held) || j.fault(held) != "") {
			err = sources.ErrNotFound
		}
	}
	if other != "" || err != nil {
		return look{}, cmp.Or(other, why, "not for "+id.Platform.String())
	}
	return look{stored: true, held: held}, ""
}

// unusable returns why a package that was found can't be used, or "" for one that is
// missing.
func (j *job) unusable(held sources.Stored, err error) string {
	switch {
	case errors.Is(err, archive.ErrNoExecutable):
		return "incomplete"
	case errors.Is(err, sources.ErrNotFound):
		return ""
	case err != nil:
		return sources.Reason(err)
	}
	return j.fault(held)
}

// fault returns why a package can't be used without a source that offers it, or "".
func (j *job) fault(held sources.Stored) string {
	held.Report = j.opts.Judge.Report(held.ID.Provider, held.Proof)
	switch {
	case !held.Hashed():
		return "missing"
	case held.Differs != "":
		return "damaged"
	case !held.Proof.Any():
		return held.Report.Verdict.String()
	case held.Report.Refused != nil:
		return held.Report.Refused.Error()
	case !j.acquirer.Proven(held):
		return "not signed as required"
	}
	return ""
}
