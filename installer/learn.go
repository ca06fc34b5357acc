package installer

import (
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// learn notes the hashes that the lock file shall hold for a package that a
// source has just vouched for: what an engine would have noted.
func (j *job) learn(s sources.Stored, d *delivery) {
	j.learned = append(j.learned, s.H1)
	switch {
	case d.report.Verdict >= sources.MirrorEvidence:
		j.learnSigned(s, d.pkg.Signed)
	case !d.fetched && s.Verdict >= sources.MirrorEvidence: // it was checked when it came into the store
		j.learnSigned(s, s.Signed)
	}
	if j.opts.Engine == sources.OpenTofu {
		if s.ZH != "" {
			j.learned = append(j.learned, s.ZH)
		}
		if j.trustOptions().KeysOptional() { // then the registry's word is enough
			j.learned = append(j.learned, d.pkg.Offered...)
			if d.pkg.Kind == sources.FromRegistry { // what a mirror carries may be anybody's word
				j.learnSigned(s, d.pkg.Signed)
			}
		}
	}
}

// learnFromCache notes the hashes for a package that the lock file and the
// store alone have proved. An engine that finds it in its own cache adds
// nothing to an entry that its contents already match.
func (j *job) learnFromCache(s sources.Stored) {
	if j.opts.EngineCache && matchesAny(j.lockedHashes(), s.H1) {
		j.learned = append(j.learned, s.H1)
		return
	}
	j.learnKnown(s)
}

// learnKnown notes the hashes for a package that was vouched for when it came.
func (j *job) learnKnown(s sources.Stored) {
	j.learned = append(j.learned, s.H1)
	if s.Verdict >= sources.MirrorEvidence {
		j.learnSigned(s, s.Signed)
	}
	if j.opts.Engine == sources.OpenTofu && s.ZH != "" {
		j.learned = append(j.learned, s.ZH)
	}
}

// learnSigned notes every archive that signed checksums list, as the signature
// holds for all of them. Of a list with a line that is none, engines believe
// only what it says of the package at hand.
func (j *job) learnSigned(s sources.Stored, signed *sources.Signed) {
	if signed == nil {
		return
	}
	sums, err := trust.ParseSums(signed.Sums)
	if err != nil {
		return
	}
	j.sums = sums
	if hashes := sums.Hashes(); len(hashes) > 0 {
		j.learned = append(j.learned, hashes...)
	} else if s.ZH != "" {
		j.learned = append(j.learned, s.ZH)
	}
}
