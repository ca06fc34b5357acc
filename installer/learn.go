package installer

import (
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// learn notes the hashes that the lock file must hold for a package that a source has
// just offered: those that an engine would have noted. OpenTofu notes the hashes of an
// archive that the source stated, and no others of an archive that it has at hand.
func (j *job) learn(res acquire.Result) {
	s, offer := res.Package, res.Offer
	j.learned = append(j.learned, s.H1)
	switch {
	case res.Report.Verdict >= sources.MirrorEvidence:
		j.learnSigned(s, offer.Signed)
	case !res.Fetched && s.Verdict >= sources.MirrorEvidence: // it was verified when it was stored
		j.learnSigned(s, s.Signed)
	}
	if j.opts.Engine == sources.OpenTofu {
		for _, h := range []sources.Hash{s.ZH, s.ZipH1} {
			if h != "" && sources.MatchesAny(offer.Hashes, h) {
				j.learned = append(j.learned, h)
			}
		}
		if j.acquirer.KeysOptional(j.req.Provider) { // then what the registry states is enough
			j.learned = append(j.learned, offer.Offered...)
			if offer.Kind == sources.FromRegistry { // anyone can have made what a mirror carries
				j.learnSigned(s, offer.Signed)
			}
		}
	}
}

// learnKnown notes the hashes for a package that was verified when it was stored.
func (j *job) learnKnown(s sources.Stored) {
	j.learned = append(j.learned, s.H1)
	if s.Verdict >= sources.MirrorEvidence {
		j.learnSigned(s, s.Signed)
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
