package installer

import (
	"context"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// Origins of an imported package.
const (
	Imported  How = "imported"
	WasStored How = "already in the cache"
)

// Import stores a package from a bundle: its archive, or its files. They must match
// the hash that the bundle states, and the recorded hashes of the package. Otherwise the
// error is an [acquire.HashMismatchError] or an [acquire.RepublishedError].
//
// An archive is verified like that of a mirror. From files alone it is impossible to
// verify that they came from an archive. So with claims.Imported, the claims count only
// if the store has recorded the same claims for these contents, which requires that it has
// processed the archive.
func (in *Installer) Import(
	ctx context.Context, id sources.PackageID, h1 sources.Hash, from sources.Payload, claims sources.Provenance,
) (Outcome, error) {
	offer, _ := in.claimed(id, h1, claims)
	offer.Payload = &from
	res, err := in.acquirer.Take(ctx, acquire.Request{ID: id}, offer)
	if err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{Package: res.Package, How: WasStored}
	if res.Fetched {
		outcome.How = Imported
	}
	return outcome, nil
}

// Foresee describes a package as [Installer.Import] would store it.
func (in *Installer) Foresee(
	ctx context.Context, id sources.PackageID, h1 sources.Hash, claims sources.Provenance,
) sources.Stored {
	offer, known := in.claimed(id, h1, claims)
	s := sources.Stored{ID: id, H1: h1, ZH: offer.Provenance.ZH, Proof: sources.Proof{Matched: true}}
	if known.H1 == h1 {
		s.Proof.Name, s.Proof.Signers = known.Proof.Name, known.Proof.Signers
	}
	if offer.Signed != nil {
		if proof, err := in.opts.Judge.Prove(ctx, id.Provider, offer.Signed, s.ZH); err == nil { // otherwise the import fails
			s.Proof = proof
		}
	}
	s.Report = in.opts.Judge.Report(id.Provider, s.Proof)
	return s
}

// claimed returns an offer with the claims that can be verified with the archive, or that
// records of the store confirm, and the record.
func (in *Installer) claimed(
	id sources.PackageID, h1 sources.Hash, claims sources.Provenance,
) (acquire.Offer, sources.Stored) {
	offer := acquire.Offer{
		Package:    sources.Package{ID: id, Hashes: []sources.Hash{h1}, Source: claims.Origin, Kind: sources.FromFilesystem},
		Provenance: sources.Provenance{Origin: claims.Origin, Imported: true},
	}
	known, err := in.into.Recall(id)
	if !claims.Imported {
		offer.Hashes, offer.Provenance = []sources.Hash{claims.ZH}, claims
		offer.Filename, offer.Signed = claims.Filename, claims.Signed
		return offer, known
	}
	if err == nil && known.H1 == h1 && known.ZH != "" && known.ZH == claims.ZH {
		offer.Provenance.ZH, offer.Provenance.Filename = known.ZH, known.Filename
		if known.Signed == nil {
			offer.Provenance.Signed, offer.Signed = claims.Signed, claims.Signed
		}
	}
	return offer, known
}
