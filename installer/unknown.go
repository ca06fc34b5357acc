package installer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/installer/lockfile"
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

// A signedList is the contents of a version's signed checksums. It is zero if they
// are unknown.
type signedList struct {
	archives  []sources.Hash
	platforms []sources.Platform
}

func newSignedList(sums trust.Sums, p sources.Provider, v sources.Version) signedList {
	return signedList{sums.Listed(), sums.Platforms(p, v)}
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
	signed := l.signedList(ctx, j, facts)
	if len(signed.archives) == 0 {
		if l.Strict && err == nil {
			j.acquirer.Warn(j.id(sources.Platform{}), "no signed checksums of "+j.version.String()+" are known, so the hashes of other platforms in the lock file cannot be checked")
		}
		return nil
	}
	rest = sources.Without(rest, signed.archives...)
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

// signedList returns the contents of the signed checksums of the job's version: those
// of the examined packages, or else those in the store. It is zero if they don't
// contain the examined archives: then a mirror has its own archives.
func (l *Locker) signedList(ctx context.Context, j *job, facts []fact) signedList {
	var signed signedList
	for _, f := range facts {
		signed.archives = append(signed.archives, f.signed.archives...)
		signed.platforms = append(signed.platforms, f.signed.platforms...)
	}
	if len(signed.archives) == 0 {
		signed = l.keptList(ctx, j)
	}
	for _, f := range facts {
		if zh := f.outcome.Package.ZH; zh != "" && !slices.Contains(signed.archives, zh) {
			return signedList{}
		}
	}
	return signed
}

// keptList returns the contents of the signed checksums that the store keeps for the
// job's version, if their signature is valid.
func (l *Locker) keptList(ctx context.Context, j *job) signedList {
	kept, _ := l.kept.Get(ctx, sources.Release{Provider: j.req.Provider, Version: j.version}, func() (signedList, error) {
		evidence, err := l.into.Evidence(j.req.Provider, j.version)
		if err != nil {
			return signedList{}, err
		}
		sums, err := trust.ParseSums(evidence.Sums)
		if err != nil {
			return signedList{}, err
		}
		list := newSignedList(sums, j.req.Provider, j.version)
		if len(list.archives) == 0 {
			return list, nil
		}
		if _, err := l.opts.Judge.Prove(j.req.Provider, evidence, list.archives[0]); err != nil {
			return signedList{}, err
		}
		return list, nil
	})
	return kept
}

// recall removes from rest the hashes of packages for other platforms that the store
// has recorded with their signature. It also returns the remaining platforms.
func (l *Locker) recall(ctx context.Context, j *job, signed signedList, rest []sources.Hash) ([]sources.Hash, []sources.Platform) {
	var others []sources.Platform
	seen := map[sources.Platform]bool{}
	for _, platform := range j.opts.Platforms {
		seen[platform] = true
	}
	for _, platform := range signed.platforms {
		if len(rest) == 0 || seen[platform] {
			continue
		}
		seen[platform] = true
		id := j.id(platform)
		known, err := l.recalled.Get(ctx, id, func() (sources.Stored, error) { return l.into.Recall(id) })
		if err != nil || !hasEvidence(known) || !slices.Contains(signed.archives, known.ZH) {
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
func (l *Locker) identify(ctx context.Context, j *job, signed signedList, platforms []sources.Platform, rest []sources.Hash) ([]sources.Hash, error) {
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
			if zh == "" || slices.Contains(signed.archives, zh) {
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
		return l.factHere(held.held), nil
	}
	f, err := l.fact(ctx, factKey{PackageID: id}, nil, nil)
	if errors.Is(err, sources.ErrOffline) {
		_, unknown := l.into.Recall(id)
		err = j.requiredBy(&MissingError{Requirement: j.req, Version: j.version, Platform: platform, Err: err, Hashed: unknown == nil})
	}
	return f, err
}

// without returns hashes without those of the package.
func without(hashes []sources.Hash, s sources.Stored) []sources.Hash {
	return sources.Without(hashes, s.H1, s.ZipH1, s.ZH)
}

// drop removes the unknown hashes that the jobs marked as dropped from the entries.
func drop(entries []lockfile.Entry, jobs []job) {
	for i, j := range jobs { // the entries of the jobs are first
		var dropped []sources.Hash
		for _, u := range j.unknown {
			if u.Dropped {
				dropped = append(dropped, u.Hash)
			}
		}
		entries[i].Hashes = sources.Without(entries[i].Hashes, dropped...)
	}
}
