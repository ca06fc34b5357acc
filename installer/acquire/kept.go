package acquire

import (
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// useKept adds the evidence that is recorded for the version to the offer of a network
// mirror that delivers none, for example in an outage. The evidence must contain the
// archive that the mirror states.
func (a *Acquirer) useKept(offer *Offer) {
	if offer.Kind != sources.FromNetwork || offer.Signed != nil {
		return
	}
	best := sources.Unverified
	for _, was := range a.Recorded(offer.ID) {
		if was.Imported || was.Signed == nil {
			continue
		}
		for _, zh := range offer.Hashes {
			verified, err := trust.VerifyArchive(was.Signed, zh, a.trust(offer.ID.Provider))
			if err == nil && verified.Signed == offer.ID.Filename() && verified.Verdict > best {
				offer.Signed, offer.kept, best = was.Signed, true, verified.Verdict
			}
		}
	}
}

// verifyOffered verifies the signed checksums of a mirror's offer for an archive. Only
// in those that this machine has recorded, a key can be one that a registry listed.
func (a *Acquirer) verifyOffered(offer Offer, zh sources.Hash) (trust.Verified, error) {
	if offer.kept {
		return trust.VerifyArchive(offer.Signed, zh, a.trust(offer.ID.Provider))
	}
	return trust.VerifyCarried(offer.Signed, zh, a.trust(offer.ID.Provider))
}
