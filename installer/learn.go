package installer

import (
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// learn notes the hashes that the lock file shall hold for a package that a
// source has just vouched for: what an engine would have noted.
func (j *job) learn(s sources.Stored, d *delivery) {
	j.learned = append(j.learned, s.H1)
	if d.report.Verdict >= sources.MirrorEvidence {
		j.learnSigned(d.pkg.Signed)
	}
	if j.opts.Engine == sources.OpenTofu {
		if s.ZH != "" {
			j.learned = append(j.learned, s.ZH)
		}
		if j.trustOptions().KeysOptional() {
			j.learned = append(j.learned, d.pkg.Offered...)
		}
	}
}

// learnFromCache notes the hashes for a package that the lock file and the
// store alone have proved. An engine that finds it in its own cache adds
// nothing to an entry that its contents already match.
func (j *job) learnFromCache(s sources.Stored) {
	j.learned = append(j.learned, s.H1)
	if j.opts.EngineCache && matchesAny(j.lockedHashes(), s.H1) {
		return
	}
	if s.Verdict >= sources.MirrorEvidence {
		j.learnSigned(s.Signed)
	}
	if j.opts.Engine == sources.OpenTofu && s.ZH != "" {
		j.learned = append(j.learned, s.ZH)
	}
}

// learnSigned notes every archive that signed checksums list, as the signature
// holds for all of them.
func (j *job) learnSigned(signed *sources.Signed) {
	if signed == nil {
		return
	}
	if sums, err := trust.ParseSums(signed.Sums); err == nil {
		j.learned = append(j.learned, sums.Hashes()...)
	}
}
