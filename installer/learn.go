package installer

import (
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// learn adds the hashes to the lock file that an engine would add for a package that
// a source has just offered. OpenTofu adds the hashes that the source states for an
// archive, and adds no others if it already has the archive.
func (j *job) learn(res acquire.Result) {
	s, offer := res.Package, res.Offer
	j.learned = append(j.learned, s.H1)
	switch {
	case res.Offered.Signed():
		j.learnSigned(s, offer.Signed)
	case !res.Fetched && s.Proof.Signed(): // it was verified when it was stored
		j.learnSigned(s, s.Signed)
	}
	if j.engine == sources.OpenTofu {
		for _, h := range []sources.Hash{s.ZH, s.ZipH1} {
			if h != "" && sources.MatchesAny(offer.Hashes, h) {
				j.learned = append(j.learned, h)
			}
		}
		if j.opts.Judge.KeysOptional(j.req.Provider) { // the hashes that the registry states are then sufficient
			j.learned = append(j.learned, offer.Offered...)
			if offer.Kind == sources.FromRegistry { // anyone may have created a mirror's evidence
				j.learnSigned(s, offer.Signed)
			}
		}
	}
}

// learnKnown adds the hashes for a package that was verified when it was stored.
func (j *job) learnKnown(s sources.Stored) {
	j.learned = append(j.learned, s.H1)
	if s.Proof.Signed() {
		j.learnSigned(s, s.Signed)
	}
}

// learnSigned adds the hashes of all archives in signed checksums, because the
// signature covers all of them. If the list has an invalid line, engines use only the
// line for the package itself.
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
