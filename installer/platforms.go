package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// keptPlatforms returns the platforms, besides the requested ones, for which the lock
// file has an h1: hash of the version that another one replaces. Someone has locked
// these platforms, so the new version is locked for them too. It warns if it can't tell
// enough platforms to keep their number. The zh: hashes need no platforms: the signed
// checksums of the new version contain them.
func (l *Locker) keptPlatforms(ctx context.Context, j *job) []sources.Platform {
	if j.locked.Version == (sources.Version{}) || j.locked.Version == j.version {
		return nil
	}
	rest := sources.HashesOf(sources.H1, j.locked.Hashes)
	locked := len(rest)
	var kept []sources.Platform
	found := func(platform sources.Platform, hashes ...sources.Hash) {
		before := len(rest)
		rest = sources.Without(rest, hashes...)
		if len(rest) < before && !slices.Contains(j.opts.Platforms, platform) && !slices.Contains(kept, platform) {
			kept = append(kept, platform)
		}
	}
	old := l.jobFor(sources.PackageID{Provider: j.req.Provider, Version: j.locked.Version}, nil)
	for _, was := range l.acquirer.Recorded(old.id(sources.Platform{})) {
		found(was.ID.Platform, was.H1, was.ZipH1)
	}
	if len(rest) > 0 {
		l.identifyPlatforms(ctx, old, func() bool { return len(rest) == 0 }, found)
	}
	if lost := locked - len(j.opts.Platforms) - len(kept); lost > 0 && len(rest) > 0 {
		l.acquirer.Warn(j.id(sources.Platform{}), fmt.Sprintf("the lock file also has %s: hashes of %s "+
			"for platforms that are unknown here (%d); to lock %s for those, name each with --platform",
			sources.H1, old.version, min(lost, len(rest)), j.version))
	}
	return kept
}

// identifyPlatforms reports the hashes of the packages of old's version, until done
// returns true. It uses the hashes that a source states and those of packages on this
// machine, and otherwise fetches packages, those for likely platforms first.
func (l *Locker) identifyPlatforms(
	ctx context.Context, old *job, done func() bool, found func(sources.Platform, ...sources.Hash),
) {
	platforms := slices.Concat(l.keptSums(ctx, old).Platforms(old.req.Provider, old.version), l.opts.Platforms, likely)
	asked := map[sources.Platform]bool{}
	for len(platforms) > 0 && !done() && ctx.Err() == nil {
		platforms = likelyFirst(platforms)
		platform := platforms[0]
		platforms = platforms[1:]
		if asked[platform] {
			continue
		}
		asked[platform] = true
		offer, err := l.acquirer.Ask(ctx, old.request(old.id(platform), nil))
		switch {
		case errors.Is(err, sources.ErrNotFound):
			continue
		case err != nil:
			return
		}
		if offer.Signed != nil {
			if sums, err := trust.ParseSums(offer.Signed.Sums); err == nil {
				platforms = append(platforms, sums.Platforms(old.req.Provider, old.version)...)
			}
		}
		found(platform, l.acquirer.HashesOf(ctx, offer)...)
		if done() {
			return
		}
		if f, err := l.about(ctx, old, platform); err == nil {
			found(platform, f.outcome.Package.H1, f.outcome.Package.ZipH1)
		}
	}
}

// losesPlatform reports whether the new version can't be locked for a platform of the
// old one, and warns about it. Another error is not the platform's.
func (j *job) losesPlatform(platform sources.Platform, err error) bool {
	why := ""
	switch {
	case errors.Is(err, sources.ErrNotFound):
		why = "there is no such package"
	case errors.Is(err, sources.ErrOffline):
		why = "its hashes are not on this machine (--offline)"
	default:
		return false
	}
	j.acquirer.Warn(j.id(platform), fmt.Sprintf("the lock file has a hash of %s for %s, but none of %s: %s",
		j.locked.Version, platform, j.version, why))
	return true
}

// warnUnsigned warns if the lock file had the hashes of archives for other platforms,
// and none are known of the new version.
func (j *job) warnUnsigned() {
	covered := sources.AnyOf(sources.ZH, j.locked.Hashes)
	if j.locked.Version == j.version || !covered || sources.AnyOf(sources.ZH, j.learned) {
		return
	}
	j.acquirer.Warn(j.id(sources.Platform{}), fmt.Sprintf(
		"the lock file has %s: hashes of %s, which cover other platforms, "+
			"but there are no signed checksums of %s; name each platform in use with --platform",
		sources.ZH, j.locked.Version, j.version))
}

// likely are the most common platforms in lock files, the most common first.
var likely = []sources.Platform{
	{OS: "linux", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"}, {OS: "windows", Arch: "amd64"},
	{OS: "linux", Arch: "arm64"}, {OS: "darwin", Arch: "amd64"}, {OS: "windows", Arch: "arm64"},
	{OS: "linux", Arch: "arm"}, {OS: "linux", Arch: "386"}, {OS: "windows", Arch: "386"}, {OS: "freebsd", Arch: "amd64"},
}

// likelyFirst sorts platforms by how common they are.
func likelyFirst(platforms []sources.Platform) []sources.Platform {
	rank := func(p sources.Platform) int {
		if i := slices.Index(likely, p); i >= 0 {
			return i
		}
		return len(likely)
	}
	byRank := func(a, b sources.Platform) int { return cmp.Compare(rank(a), rank(b)) }
	return slices.SortedStableFunc(slices.Values(platforms), byRank)
}
