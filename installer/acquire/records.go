package acquire

import (
	"context"
	"errors"
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
	if rest = sources.Without(rest, known...); len(rest) == 0 {
		return true
	}
	for _, was := range a.Recorded(id) {
		rest = sources.Without(rest, was.Hashes()...)
	}
	return len(rest) == 0
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
	sums, _ := trust.ParseSums(offer.Signed.Sums) // without lines, if they can't be read
	for platform, zh := range sums.Archives(offer.ID.Provider, offer.ID.Version) {
		if platform != offer.ID.Platform {
			hashes = append(hashes, zh)
		}
	}
	return hashes
}

// Recorded returns the recorded packages of a package's version for all other platforms,
// sorted. It ignores records that can't be read: requests for those packages fail.
func (a *Acquirer) Recorded(id sources.PackageID) []sources.Stored {
	platforms, _ := a.into.Recorded(id.Provider, id.Version)
	if a.opts.Memory != nil {
		elsewhere, _ := a.opts.Memory.Recorded(id.Provider, id.Version)
		platforms = append(platforms, elsewhere...)
	}
	slices.SortFunc(platforms, sources.Platform.Compare)
	var all []sources.Stored
	for _, platform := range slices.Compact(platforms) {
		if platform == id.Platform {
			continue
		}
		other := sources.PackageID{Provider: id.Provider, Version: id.Version, Platform: platform}
		if was, err := a.recall(other); err == nil && was.Hashed() {
			was.ID = other
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

// useKept adds the evidence that is recorded for the version to the offer of a network
// mirror that delivers none, for example in an outage. The evidence must contain the
// archive that the mirror states.
func (a *Acquirer) useKept(ctx context.Context, offer *Offer) {
	if a.into == nil || offer.Kind != sources.FromNetwork && offer.Kind != sources.FromOCI || offer.Signed != nil {
		return
	}
	best := sources.Unverified
	for _, was := range a.Recorded(sources.PackageID{Provider: offer.ID.Provider, Version: offer.ID.Version}) {
		if was.Signed == nil {
			continue
		}
		for _, zh := range offer.Hashes {
			verified, err := a.opts.Judge.Verify(ctx, offer.ID.Provider, was.Signed, zh)
			if err == nil && verified.Signed == offer.ID.Filename() && verified.Verdict > best {
				offer.Signed, offer.kept, best = was.Signed, true, verified.Verdict
			}
		}
	}
}

// recall returns the hashes of a package that this user has verified, from the store
// or from another record. Without a record it returns none.
func (a *Acquirer) recall(id sources.PackageID) (sources.Stored, error) {
	known, err := a.into.Recall(id)
	if err := UnlessNotFound(err); err != nil {
		return known, err
	}
	return a.verified(id, known)
}

// verified returns the store's record of a package. If there is none, it returns this user's record from elsewhere.
func (a *Acquirer) verified(id sources.PackageID, known sources.Stored) (sources.Stored, error) {
	if known.Hashed() || a.opts.Memory == nil {
		return a.judged(id, known), nil
	}
	elsewhere, err := a.opts.Memory.Recall(id)
	if errors.Is(err, sources.ErrNotFound) {
		return a.judged(id, known), nil
	}
	return a.judged(id, elsewhere), err
}

// judged returns what a store has with the report by the settings of this run. Root modules with different policies may
// share a store, so its report may be that of another one.
func (a *Acquirer) judged(id sources.PackageID, s sources.Stored) sources.Stored {
	s.Report = a.report(id, s.Proof)
	return s
}

// UnlessNotFound returns the error of a record that cannot be read. It returns nil if
// there is no record, because there is then nothing to compare with.
func UnlessNotFound(err error) error {
	if errors.Is(err, sources.ErrNotFound) {
		return nil
	}
	return err
}
