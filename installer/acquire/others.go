package acquire

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// OfOthers reports whether all locked hashes of a version belong to packages for
// other platforms, so that they do not refuse the package for this platform. The zh:
// hashes decide; without zh: hashes, the h1: hashes do. A hash belongs to another
// platform if it is in known, or if a package with it was verified on this machine
// before.
func (a *Acquirer) OfOthers(id sources.PackageID, locked, known []sources.Hash) bool {
	scheme := sources.H1
	if sources.AnyOf(sources.ZH, locked) {
		scheme = sources.ZH
	}
	rest := slices.DeleteFunc(slices.Clone(locked), func(h sources.Hash) bool { return h.Scheme() != scheme })
	if len(rest) == 0 {
		return false
	}
	explained := func(known []sources.Hash) bool {
		rest = sources.Without(rest, known...)
		return len(rest) == 0
	}
	return explained(known) || explained(a.recordedForOthers(id))
}

// Unlocked reports whether all locked hashes of a request belong to other platforms,
// given the hashes that a source or store states for the package. It is false if the
// request does not allow for that.
func (a *Acquirer) Unlocked(req Request, stated sources.Package) bool {
	return req.OtherPlatforms && !sources.MatchesAny(req.Locked, stated.Hashes...) &&
		a.OfOthers(req.ID, req.Locked, append(StatedForOthers(stated), req.Others...))
}

// StatedForOthers returns the hashes that a source states for the version's packages
// for other platforms, directly or in signed checksums.
func StatedForOthers(offer sources.Package) []sources.Hash {
	hashes := slices.Clone(offer.Others)
	if offer.Signed == nil {
		return hashes
	}
	sums, err := trust.ParseSums(offer.Signed.Sums)
	if err != nil {
		return hashes
	}
	for platform, zh := range sums.Archives(offer.ID.Provider, offer.ID.Version) {
		if platform != offer.ID.Platform {
			hashes = append(hashes, zh)
		}
	}
	return hashes
}

// recordedForOthers returns the hashes of the version's packages for other platforms
// that were verified on this machine.
func (a *Acquirer) recordedForOthers(id sources.PackageID) []sources.Hash {
	var hashes []sources.Hash
	for _, was := range a.Recorded(id) {
		if was.ID != id && !was.Imported {
			hashes = append(hashes, was.H1, was.ZipH1, was.ZH)
		}
	}
	return hashes
}

// Recorded returns the recorded packages of a package's version, for all platforms. It
// ignores records that can't be read: requests for those packages fail.
func (a *Acquirer) Recorded(id sources.PackageID) []sources.Stored {
	return a.recordedFor(id, a.recorded(id))
}

func (a *Acquirer) recordedFor(id sources.PackageID, platforms []sources.Platform) []sources.Stored {
	var all []sources.Stored
	for _, platform := range platforms {
		id.Platform = platform
		if was, err := a.recall(id); err == nil && was.H1 != "" {
			was.ID = id
			all = append(all, was)
		}
	}
	return all
}

// HashesOf returns the known hashes of an offered package without fetching it: those
// that the source states, and those of a package on this machine.
func (a *Acquirer) HashesOf(ctx context.Context, offer Offer) []sources.Hash {
	hashes := slices.Clone(offer.Hashes)
	if offer.Location.URL != "" {
		return append(hashes, offer.Stated)
	}
	if read, err := a.opts.Readings.of(ctx, offer.Location); err == nil {
		hashes = append(hashes, read.contents.H1, read.contents.ZipH1)
	}
	return hashes
}
