package installer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// An UnknownHash is a hash in a lock file that matches no signed checksum and no
// examined package, although the signed checksums of the version are known.
type UnknownHash struct {
	Provider sources.Provider
	Version  sources.Version
	Hash     sources.Hash
	Line     int  // line number in the lock file
	Maybe    bool // an h1: hash that may belong to a platform whose package was not examined
	Dropped  bool // whether it is left out of the lock file
	Refused  bool // whether the provider also failed with an error
}

// examine finds the unidentified hashes in the lock entry. The facts are those of the
// requested platforms. If err is not nil, it is the reason why a fact is zero.
func (l *Locker) examine(ctx context.Context, j *job, facts []fact, err error) error {
	rest := j.lockedHashes()
	for _, f := range facts {
		rest = sources.Without(without(rest, f.outcome.Package), f.hashes...)
	}
	if len(rest) == 0 {
		return nil
	}
	signed := l.signedSums(ctx, j, facts)
	archives := signed.Listed()
	if len(archives) == 0 {
		if l.Strict && err == nil {
			j.acquirer.Warn(j.id(sources.Platform{}), "no signed checksums of "+j.version.String()+" are known, so the hashes of other platforms in the lock file cannot be checked")
		}
		return nil
	}
	rest = sources.Without(rest, archives...)
	if err != nil {
		rest = slices.DeleteFunc(rest, func(h sources.Hash) bool { return h.Scheme() == sources.H1 })
	}
	rest, others := l.recall(ctx, j, signed, rest)
	var strictErr error
	if l.Strict && err == nil {
		rest, strictErr = l.identify(ctx, j, signed, others, rest)
	}
	seen := map[sources.Hash]bool{}
	for _, h := range rest {
		if seen[h] {
			continue // a duplicate in the lock file
		}
		seen[h] = true
		maybe := h.Scheme() == sources.H1 && (!l.Strict || strictErr != nil)
		j.unknown = append(j.unknown, UnknownHash{
			Provider: j.req.Provider, Version: j.version, Hash: h, Line: j.root.Lock.Line(j.req.Provider, h),
			Maybe: maybe, Dropped: l.DropUnknown && !maybe, Refused: err != nil || strictErr != nil,
		})
	}
	return strictErr
}

// signedSums returns the signed checksums of the job's version: those of the examined
// packages, or else those in the store. They are empty if they don't contain the examined
// archives: then a mirror has its own archives.
func (l *Locker) signedSums(ctx context.Context, j *job, facts []fact) trust.Sums {
	var signed trust.Sums
	for _, f := range facts {
		signed = signed.And(f.signed)
	}
	if len(signed.Listed()) == 0 {
		signed = l.keptSums(ctx, j)
	}
	for _, f := range facts {
		if zh := f.outcome.Package.ZH; zh != "" && !signed.Has(zh) {
			return trust.Sums{}
		}
	}
	return signed
}

// keptSums returns the signed checksums that the store keeps for the job's version, if
// their signature is valid.
func (l *Locker) keptSums(ctx context.Context, j *job) trust.Sums {
	kept, _ := l.kept.Get(ctx, sources.Release{Provider: j.req.Provider, Version: j.version}, func() (trust.Sums, error) {
		evidence, err := l.into.Evidence(j.req.Provider, j.version)
		if err != nil {
			return trust.Sums{}, err
		}
		sums, err := trust.ParseSums(evidence.Sums)
		if listed := sums.Listed(); len(listed) > 0 {
			_, err = l.opts.Judge.Prove(ctx, j.req.Provider, evidence, listed[0])
		}
		if err != nil {
			return trust.Sums{}, err
		}
		return sums, nil
	})
	return kept
}

// recall removes from rest the hashes of packages for other platforms that the store
// has recorded with their signature. It also returns the remaining platforms.
func (l *Locker) recall(ctx context.Context, j *job, signed trust.Sums, rest []sources.Hash) ([]sources.Hash, []sources.Platform) {
	var others []sources.Platform
	for _, platform := range signed.Platforms(j.req.Provider, j.version) {
		if len(rest) == 0 || slices.Contains(j.opts.Platforms, platform) {
			continue
		}
		id := j.id(platform)
		known, err := l.recalled.Get(ctx, id, func() (sources.Stored, error) { return l.into.Recall(id) })
		if err != nil || !hasEvidence(known) || !signed.Has(known.ZH) {
			others = append(others, platform)
			continue
		}
		rest = without(rest, known)
	}
	return rest, others
}

// hasEvidence reports whether a recorded package has valid signed checksums.
func hasEvidence(known sources.Stored) bool {
	return known.Signed != nil && known.Proof.Signed()
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
	return slices.SortedStableFunc(slices.Values(platforms), func(a, b sources.Platform) int { return cmp.Compare(rank(a), rank(b)) })
}

// identify removes from rest the hashes of the packages for the platforms. It fetches
// the packages one after another and stops when every h1: hash is identified, because
// a genuine lock file is for few platforms and packages are large. If no source has a
// package for a platform, no hash can belong to it.
func (l *Locker) identify(ctx context.Context, j *job, signed trust.Sums, platforms []sources.Platform, rest []sources.Hash) ([]sources.Hash, error) {
	var errs []error
	for _, platform := range likelyFirst(platforms) {
		if !sources.AnyOf(sources.H1, rest) {
			return rest, nil
		}
		f, err := l.about(ctx, j, platform)
		switch zh := f.outcome.Package.ZH; {
		case errors.Is(err, sources.ErrNotFound):
		case err != nil:
			errs = append(errs, err)
		default:
			j.examined = append(j.examined, f.outcome)
			if zh == "" || signed.Has(zh) {
				rest = without(rest, f.outcome.Package)
			}
		}
	}
	if !sources.AnyOf(sources.H1, rest) {
		return rest, nil
	}
	return rest, errors.Join(errs...)
}

// about determines the fact for one platform.
func (l *Locker) about(ctx context.Context, j *job, platform sources.Platform) (fact, error) {
	id := j.id(platform)
	if held := j.looked[platform]; j.offline && held.suffices() {
		here := l.jobFor(id, nil)
		here.learnKnown(held.held)
		return here.fact(Outcome{Package: held.held, How: Remembered, Offline: true}), nil
	}
	f, err := l.fact(ctx, id, nil, nil)
	if errors.Is(err, sources.ErrOffline) {
		_, unknown := l.into.Recall(id)
		err = j.requiredBy(&MissingError{Requirement: j.req, Version: j.version, Platform: platform, Err: err, Hashed: unknown == nil})
	}
	return f, err
}

// without returns hashes without those of the package.
func without(hashes []sources.Hash, s sources.Stored) []sources.Hash {
	return sources.Without(hashes, s.Hashes()...)
}
