package installer

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// An UnknownHash is a hash in a lock file that matches no signed checksum and no known
// package, although the signed checksums of the version are known.
type UnknownHash struct {
	sources.Release
	Hash    sources.Hash
	Line    int  // line number in the lock file
	Refused bool // whether the provider also failed with an error
}

// examine finds the unknown hashes in the lock entry. The facts are those of the requested
// platforms; some are zero if the provider was refused. Without Strict, it skips h1: hashes,
// which may belong to other platforms.
func (l *Locker) examine(ctx context.Context, j *job, facts []fact, refused bool) {
	rest := j.lockedHashes()
	for _, f := range facts {
		rest = sources.Without(without(rest, f.outcome.Package), f.hashes...)
	}
	strict := l.Strict && !refused
	if !strict {
		rest = slices.DeleteFunc(rest, func(h sources.Hash) bool { return h.Scheme() == sources.H1 })
	}
	if len(rest) == 0 {
		return
	}
	signed := l.signedSums(ctx, j, facts)
	archives := signed.Listed()
	if len(archives) == 0 {
		if strict {
			j.acquirer.Warn(j.id(sources.Platform{}), "no signed checksums of "+j.version.String()+
				" are known, so the hashes of other platforms in the lock file cannot be checked")
		}
		return
	}
	rest = sources.Without(rest, archives...)
	if strict {
		rest = l.recall(j, signed, rest)
	}
	seen := map[sources.Hash]bool{}
	for _, h := range rest {
		if seen[h] {
			continue // a duplicate in the lock file
		}
		seen[h] = true
		line := j.root.Lock.Line(j.req.Provider, h)
		j.unknown = append(j.unknown, UnknownHash{j.id(sources.Platform{}).Release(), h, line, refused})
	}
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
		return l.opts.Judge.Signed(ctx, j.req.Provider, evidence)
	})
	return kept
}

// recall removes from rest the hashes of packages for other platforms that the store
// has recorded with their signature.
func (l *Locker) recall(j *job, signed trust.Sums, rest []sources.Hash) []sources.Hash {
	if len(rest) == 0 {
		return nil
	}
	for _, known := range l.acquirer.Recorded(j.id(sources.Platform{})) {
		if hasEvidence(known) && signed.Has(known.ZH) {
			rest = without(rest, known)
		}
	}
	return rest
}

// hasEvidence reports whether a recorded package has valid signed checksums.
func hasEvidence(known sources.Stored) bool {
	return known.Signed != nil && known.Proof.Signed()
}

// without returns hashes without those of the package.
func without(hashes []sources.Hash, s sources.Stored) []sources.Hash {
	return sources.Without(hashes, s.Hashes()...)
}
